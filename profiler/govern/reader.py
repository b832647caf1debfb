# SPDX-License-Identifier: Apache-2.0
"""Samples from /proc: files that are opened once and read from their beginning each time.

A reading of /proc/vmstat makes the kernel compute its thresholds. Dirtyable memory is computed from
one that is a ratio. While none is, it is free memory and file pages less the kernel's reserves,
which are known from before (`global_dirtyable_memory()` in mm/page-writeback.c, Linux 6.18).

While little is dirty, nothing is decided, so the other files are read only every half second.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sysctl.govern.samples import Sample, VolumeState
from sysctl.host.sysctls import sysctl_path
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR, THRESHOLDS
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds

_VMSTAT = (
    *("nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold"),
    *("nr_free_pages", "nr_inactive_file", "nr_active_file"),
)
_VMSTAT_LINE = re.compile(rf"^({'|'.join(_VMSTAT)}) (\d+)$".encode(), re.MULTILINE)
_AVAILABLE_LINE = re.compile(rb"^MemAvailable: +(\d+) kB$", re.MULTILINE)
_PRESSURE_LINE = re.compile(rb"^(some|full) .*total=(\d+)$", re.MULTILINE)
_READ_BYTES = 1 << 16
#: Everything is read while more than this share of the background threshold is dirty.
_BUSY_SHARE = 0.1
_CALM_INTERVAL_NS = 500_000_000
_NS_PER_US = 1000


@dataclass(frozen=True)
class _Slow:
    """What is not read each time while the host is calm; `thresholds` were in force then."""

    read_ns: int
    values: dict[str, int]
    available_bytes: int
    pressure_ns: tuple[int | None, int | None]
    thresholds: Thresholds | None = None


class HostReader:
    """Reads the host's part of a sample, and that of the volumes with `read_volumes`.

    Raises OSError if /proc has no vmstat or meminfo.
    """

    def __init__(
        self,
        read_volumes: Callable[[], tuple[VolumeState | None, ...]],
        root: Path = Path("/"),
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._read_volumes, self._clock_ns = read_volumes, clock_ns
        proc = root / "proc"
        self._vmstat, self._meminfo = _opened(proc / "vmstat"), _opened(proc / "meminfo")
        self._sysctls = {name: _opened(root / sysctl_path(name).lstrip("/")) for name in THRESHOLDS}
        self._pressure = _opened_if_readable(proc / "pressure/memory")
        self._reserved_bytes: int | None = None
        self._slow = self._read_slow(self._clock_ns())

    def read(self) -> Sample:
        """Return a sample."""
        now_ns = self._clock_ns()
        pages = {k.decode(): int(v) for k, v in _VMSTAT_LINE.findall(_text(self._vmstat))}
        vmstat = {name: count * PAGE_BYTES for name, count in pages.items()}
        thresholds = Thresholds(
            vmstat["nr_dirty_background_threshold"], vmstat["nr_dirty_threshold"]
        )
        held_bytes = vmstat["nr_dirty"] + vmstat["nr_writeback"]
        is_busy = held_bytes > _BUSY_SHARE * thresholds.background_bytes
        is_new = thresholds != self._slow.thresholds
        if is_busy or is_new or now_ns - self._slow.read_ns >= _CALM_INTERVAL_NS:
            self._slow = replace(self._read_slow(now_ns), thresholds=thresholds)
        slow = self._slow
        return Sample(
            time_ns=now_ns,
            dirty_bytes=vmstat["nr_dirty"],
            writeback_bytes=vmstat["nr_writeback"],
            thresholds=thresholds,
            dirtyable_bytes=self._dirtyable_bytes(
                vmstat, thresholds, slow.values, slow.available_bytes
            ),
            available_bytes=slow.available_bytes,
            values=slow.values,
            volumes=self._read_volumes(),
            memory_some_ns=slow.pressure_ns[0],
            memory_full_ns=slow.pressure_ns[1],
        )

    def _read_slow(self, now_ns: int) -> _Slow:
        return _Slow(now_ns, self.values(), self._available_bytes(), self._pressure_ns())

    def values(self) -> dict[str, int]:
        """Return the threshold sysctls in force: of each pair the non-zero member.

        If both are 0, the ratio is in force.
        """
        found = {name: int(_text(file)) for name, file in self._sysctls.items()}
        kept = {}
        for ratio, size in (DIRTY_PAIR, BACKGROUND_PAIR):
            name = size if found[size] else ratio
            kept[name] = found[name]
        return kept

    def _dirtyable_bytes(
        self,
        vmstat: Mapping[str, int],
        at: Thresholds,
        values: Mapping[str, int],
        available_bytes: int,
    ) -> int:
        counted = sum(vmstat[name] for name in _VMSTAT[-3:])
        dirty, background = values.get(DIRTY_PAIR[0]), values.get(BACKGROUND_PAIR[0])
        exact = None
        if dirty:
            exact = at.dirty_bytes * 100 // dirty
        elif background and at.background_bytes < at.dirty_bytes // 2:  # else it may be halved
            exact = at.background_bytes * 100 // background
        if exact is not None:
            self._reserved_bytes = counted - exact
            return exact
        if self._reserved_bytes is None:
            return available_bytes
        return max(PAGE_BYTES, counted - self._reserved_bytes)

    def _available_bytes(self) -> int:
        found = _AVAILABLE_LINE.search(_text(self._meminfo))
        return int(found[1]) * 1024 if found else 0

    def _pressure_ns(self) -> tuple[int | None, int | None]:
        if self._pressure is None:
            return None, None
        totals = dict(_PRESSURE_LINE.findall(_text(self._pressure)))
        some, full = (totals.get(kind) for kind in (b"some", b"full"))
        return (
            None if some is None else int(some) * _NS_PER_US,
            None if full is None else int(full) * _NS_PER_US,
        )

    def close(self) -> None:
        """Close the files."""
        files = (self._vmstat, self._meminfo, self._pressure, *self._sysctls.values())
        for file in files:
            if file is not None:
                os.close(file)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _opened_if_readable(path: Path) -> int | None:
    """Open a file of /proc/pressure; None without CONFIG_PSI, or with psi=0."""
    try:
        descriptor = _opened(path)
    except OSError:
        return None
    try:
        _text(descriptor)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _text(descriptor: int) -> bytes:
    return os.pread(descriptor, _READ_BYTES, 0)
