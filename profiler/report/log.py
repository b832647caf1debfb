# SPDX-License-Identifier: Apache-2.0
"""Violations as records of Mistral's log: 20 fields, a line for each rule and timeframe.

The format is that of the plug-in repository `altairengineering/mistral_plugins`
(`common/plugin_control.{c,h}`): commas separate fields, and a backslash escapes a comma, a
backslash, and the `n` of a newline.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import IO

from contracts.evaluate import Finding
from contracts.fields import size_range_text
from contracts.model import Contract, Quantity, Rule
from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from contracts.shared.units import BYTES_PER_UNIT, exact_count, exact_latency
from contracts.vocabulary import call_types_text
from profiler.recording.log_origin import Origin
from profiler.recording.timeframes import Frame

FIELDS = (
    *("TIMESTAMP", "LABEL", "PATH", "FSTYPE", "FSNAME", "FSHOST", "CALL-TYPE", "SIZE-RANGE"),
    *("MEASUREMENT", "MEASURED", "THRESHOLD", "HOSTNAME", "PID", "CPU", "COMMAND", "FILENAME"),
    *("JOB-GROUP-ID", "JOB-ID", "MPI-RANK", "SEQUENCE"),
)
_TIMESTAMP = "%Y-%m-%dT%H:%M:%S.%f"
_TIMESTAMP_TEXT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+")
#: A comma after an even number of backslashes: it is not escaped.
_FIELD_END = re.compile(r"(?<!\\)(?:\\\\)*,")
_SIZE_UNITS = ("GB", "MB", "kB", "B")
_NS_PER_US = 1000


class RecordLog:
    """Writes a record for each leading violation of a frame; a consumer of `Timeframes`.

    A disk error ends the log but not the profile: `close` raises it.
    """

    def __init__(
        self,
        file: IO[str],
        contract: Contract,
        origin: Origin,
        *,
        cpu: Callable[[], int] | None = None,
    ) -> None:
        self._file = file
        self._contract = contract
        self.origin = origin
        self._cpu = cpu or _own_cpu
        self._sequence = 0
        self._failure: OSError | None = None

    def set_pid(self, pid: int) -> None:
        """Set the process of the records from now on."""
        self.origin = replace(self.origin, pid=pid)

    def __call__(self, frame: Frame) -> None:
        """Write the frame's records."""
        for finding in frame.leading:
            self._sequence += 1
            fields = self._fields(frame, finding)
            self._write(",".join(_escaped(fields[name]) for name in FIELDS))

    def close(self) -> None:
        """Close the file. Raises WritewiseError if a record could not be written."""
        try:
            self._file.close()
        except OSError as error:
            self._failure = self._failure or error
        if self._failure:
            message = f"the log cannot be written: {self._failure.strerror}"
            raise WritewiseError(message, "name a file on a disk with room")

    def _write(self, line: str) -> None:
        if self._failure is None:
            try:
                self._file.write(f"{line}\n")
            except OSError as error:
                self._failure = error

    def _fields(self, frame: Frame, finding: Finding) -> dict[str, str]:
        """Return field name → text. FILENAME is empty since a frame has many, and MPI-RANK too."""
        rule, origin = finding.rule, self.origin
        timeframe_ns = self._contract.timeframe_ns
        measured = figure_text(rule, finding.value or 0)
        volume = origin.volume_of_path[rule.path]
        return {
            **dict.fromkeys(FIELDS, ""),
            "TIMESTAMP": frame.ended_at.strftime(_TIMESTAMP),
            "LABEL": rule.label,
            "PATH": rule.path,
            "FSTYPE": volume.fstype,
            "FSNAME": volume.source,
            "FSHOST": volume.host,
            "CALL-TYPE": call_types_text(rule.call_types),
            "SIZE-RANGE": size_range_text(rule.size_range),
            "MEASUREMENT": rule.measurement.value,
            "MEASURED": f"{measured}/{length_text(frame.length_ns(timeframe_ns))}",
            "THRESHOLD": f"{figure_text(rule, rule.threshold)}/{length_text(timeframe_ns)}",
            "HOSTNAME": origin.hostname,
            "PID": str(origin.pid),
            "CPU": str(self._cpu()),
            "COMMAND": origin.command,
            "JOB-GROUP-ID": origin.job_group_id,
            "JOB-ID": origin.job_id,
            "SEQUENCE": str(self._sequence),
        }


def figure_text(rule: Rule, value: float) -> str:
    """Return a value or threshold in the contract language, exact: `2MB`; times to 1 us."""
    quantity = rule.measurement.quantity
    if quantity is Quantity.SIZE:
        return _size_text(round(value))
    return exact_count(round(value)) if quantity is Quantity.COUNT else length_text(value)


def _size_text(size_bytes: int) -> str:
    """Return it in the largest unit that divides it and that Mistral's plug-ins read (no KiB)."""
    fitting = (unit for unit in _SIZE_UNITS if size_bytes % BYTES_PER_UNIT[unit] == 0)
    unit = next(fitting) if size_bytes else "B"
    return f"{size_bytes // BYTES_PER_UNIT[unit]}{unit}"


def length_text(duration_ns: float) -> str:
    """Return a time rounded up to whole microseconds, in the contract language: `350ms`.

    It is rounded up so that a value over a threshold never equals it in the log.
    """
    return exact_latency(-int(-duration_ns // _NS_PER_US) * _NS_PER_US)


def is_record(line: str) -> bool:
    """Return whether a line looks like such a record: its beginning and its number of fields."""
    fields = _FIELD_END.split(line)
    return len(fields) == len(FIELDS) and bool(_TIMESTAMP_TEXT.fullmatch(fields[0]))


def _escaped(text: str) -> str:
    r"""Return a field with `\\`, `\,` and `\n` as Mistral reads them, without control codes."""
    lines = (printable(line) for line in text.split("\n"))
    return "\n".join(lines).replace("\\", "\\\\").replace(",", "\\,").replace("\n", "\\n")


def _own_cpu() -> int:
    """Return the CPU that writes the record, since a frame's calls ran on many."""
    import psutil

    return psutil.Process(os.getpid()).cpu_num()
