# SPDX-License-Identifier: Apache-2.0
"""Find the phase of a running sweep from its journal and its volume, and kill it there."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sysctl.host.changes import (
    TRIAL_PREFIX,
    DeviceOriginals,
    MountOriginal,
    NewPath,
    WritebackOriginals,
)
from tests.root.hosts import SLOWNESS

_POLL_S = 0.0005
_LONGEST_SWEEP_S = 60 * SLOWNESS
_ORIGINALS = (DeviceOriginals.kind, MountOriginal.kind, WritebackOriginals.kind)


class Phase(enum.Enum):
    """The phase that a sweep is in."""

    START = "nothing was changed yet"
    PROBE = "mount options are tried on a scratch volume, knobs on the disk"
    ATTACH = "probes are compiled and attached, nothing is changed"
    APPLY = "sysctls are written for the first time"
    REMOUNT = "the volume is mounted otherwise for the first time"
    KNOB = "knobs of the disk are written for the first time"
    SETTLE = "a trial's folder is journaled, no object is in it"
    PULL = "objects arrive"
    DELETE = "some objects of a trial are gone again"
    BETWEEN = "between two trials, settings are changed again, or the first original returns"
    RESTORE = "some originals are back, others are not"
    END = "all is back, or the sweep has ended"


class Watcher:
    """Follows one sweep from outside: its journal and the files of its trial."""

    def __init__(self, state: Path, output: Path) -> None:
        self._journal = state / "sweep.journal"
        self._output = output
        self._trial = ""
        self._most_parts = 0

    def phase(self) -> Phase:
        """Return the current phase. Call it often: it detects a deletion by parts it saw before."""
        lines = self._lines()
        undone = {line["undone"] for line in lines if "undone" in line}
        changes = {line["sequence"]: line["change"] for line in lines if "sequence" in line}
        pending = [changes[number] for number in sorted(changes) if number not in undone]
        if not pending:
            return self._without_changes()
        trial = next((change["path"] for change in pending if _is_trial(change)), None)
        if trial:
            return self._of_trial(trial)
        if any(change["kind"] not in _ORIGINALS for change in pending):
            return Phase.PROBE
        last = lines[-1]
        return _of_undone(changes[last["undone"]]) if "undone" in last else _of_record(pending)

    def _lines(self) -> list[dict[str, Any]]:
        try:
            complete = self._journal.read_text().rpartition("\n")[0]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in complete.splitlines()]

    def _without_changes(self) -> Phase:
        """Decide by the results, which are written before the first trial and after each."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            trials = json.loads(self._output.read_text())["trials"]
            return Phase.END if trials else Phase.ATTACH
        return Phase.END if self._trial else Phase.START

    def _of_trial(self, trial: str) -> Phase:
        if trial != self._trial:
            self._trial, self._most_parts = trial, 0
        parts = sum(len(files) for _, _, files in os.walk(trial))
        self._most_parts = max(parts, self._most_parts)
        if parts < self._most_parts:
            return Phase.DELETE
        return Phase.PULL if parts else Phase.SETTLE


def _is_trial(change: Mapping[str, Any]) -> bool:
    return change["kind"] == NewPath.kind and Path(change["path"]).name.startswith(TRIAL_PREFIX)


def _of_undone(change: Mapping[str, Any]) -> Phase:
    return Phase.RESTORE if change["kind"] in _ORIGINALS else Phase.BETWEEN


def _of_record(pending: list[dict[str, Any]]) -> Phase:
    """Return the phase of the last line, which is the change in progress."""
    kinds = [change["kind"] for change in pending]
    if WritebackOriginals.kind not in kinds:
        return Phase.PROBE
    return {
        WritebackOriginals.kind: Phase.APPLY,
        MountOriginal.kind: Phase.REMOUNT,
        DeviceOriginals.kind: Phase.KNOB,
    }[kinds[-1]]


def kill_at(process: subprocess.Popen[Any], seconds: float, watcher: Watcher) -> Phase | None:
    """Kill after so many seconds; return the phase that was hit, None if the sweep ended before."""
    deadline_s = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline_s:
        watcher.phase()
        time.sleep(_POLL_S)
    return _kill(process, watcher)


def kill_in(
    process: subprocess.Popen[Any], phases: Collection[Phase], after_s: float, watcher: Watcher
) -> Phase | None:
    """Kill so many seconds after one of `phases` was seen, or after a minute; as `kill_at`."""
    deadline_s = time.monotonic() + _LONGEST_SWEEP_S
    while process.poll() is None and watcher.phase() not in phases:
        if time.monotonic() > deadline_s:
            break
        time.sleep(_POLL_S)
    return kill_at(process, after_s, watcher)


def _kill(process: subprocess.Popen[Any], watcher: Watcher) -> Phase | None:
    process.send_signal(signal.SIGKILL)
    is_killed = process.wait(20 * SLOWNESS) == -signal.SIGKILL
    return watcher.phase() if is_killed else None
