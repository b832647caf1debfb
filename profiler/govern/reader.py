# SPDX-License-Identifier: Apache-2.0
"""Samples from /proc: files that are opened once and read from their beginning each time.

A reading of /proc/vmstat makes the kernel compute its thresholds. Dirtyable memory is computed from
one that is a ratio. While none is, it is free memory and file pages less the kernel's reserves,
which are known from before (`global_dirtyable_memory()` in mm/page-writeback.c, Linux 6.18).

While little is dirty, nothing is to be decided. Then only /proc/vmstat is read each time, and a
complete sample is taken every half second, or once more is dirty: when a burst begins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from profiler.watch.pressure import parse_pressure
from sysctl.govern.groups import GroupMemory
from sysctl.govern.samples import HostSample, VolumeState, busy_bytes
from sysctl.host.sysctls import sysctl_path
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR, THRESHOLDS
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds

_VMSTAT = (
    *("nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold"),
    *("nr_dirtied", "nr_written"),
    *("nr_free_pages", "nr_inactive_file", "nr_active_file"),
)
_VMSTAT_KEYS = tuple((name, f"\n{name} ".encode()) for name in _VMSTAT)
_READ_BYTES = 1 << 16
#: While the host is calm, a sample is taken this often.
_CALM_INTERVAL_NS = 500_000_000
#: So much more is dirty when a burst begins.
_NEWS_BYTES = 1 << 20


@dataclass(frozen=True)
class WritersSeen:
    """What is known of writers, as in a sample."""

    admitted_bytes: int | None = None
    writes: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[GroupMemory, ...] = ()


class WritersReader(Protocol):
    """Looks at who writes."""

    def look(self, volumes: tuple[VolumeState | None, ...], *, is_busy: bool) -> WritersSeen:
        """Return what is new; `volumes` are as just read, `is_busy` is whether much is dirty."""


class HostReader:
    """Reads the host's part of a sample, and that of the volumes with `read_volumes`.

    Raises OSError if /proc has no vmstat or meminfo.
    """

    def __init__(
        self,
        read_volumes: Callable[[], tuple[VolumeState | None, ...]],
        root: Path = Path("/"),
        clock_ns: Callable[[], int] = time.monotonic_ns,
        writers: WritersReader | None = None,
        counts_host: bool = False,
    ) -> None:
        """With `counts_host` the host's counters stand for those of all volumes together.

        That is for kernels whose counters of volumes leave out most control groups.
        """
        self._read_volumes, self._clock_ns = read_volumes, clock_ns
        self._writers, self._counts_host = writers, counts_host
        proc = root / "proc"
        self._vmstat, self._meminfo = _opened(proc / "vmstat"), _opened(proc / "meminfo")
        self._sysctls = {name: _opened(root / sysctl_path(name).lstrip("/")) for name in THRESHOLDS}
        self._pressure = _opened_if_readable(proc / "pressure/memory")
        self._reserved_bytes: int | None = None
        self._last: HostSample | None = None

    def read_news(self) -> HostSample | None:
        """Return a sample; None if the host is calm, as it was at the last sample, not long ago."""
        last, now_ns = self._last, self._clock_ns()
        vmstat, thresholds = self._read_vmstat()
        if last is not None and now_ns - last.time_ns < _CALM_INTERVAL_NS:
            has_more = _held_bytes(vmstat) - last.held_bytes > _NEWS_BYTES
            is_same = thresholds == last.thresholds and not has_more
            if is_same and not _is_busy(vmstat, thresholds):
                return None
        self._last = self._complete(now_ns, vmstat, thresholds)
        return self._last

    def read(self) -> HostSample:
        """Return a sample, which is no news to `read_news`: its first one comes at once."""
        return self._complete(self._clock_ns(), *self._read_vmstat())

    def _complete(
        self, now_ns: int, vmstat: Mapping[str, int], thresholds: Thresholds
    ) -> HostSample:
        """Return the sample with what else it has."""
        values, available = self.values(), self._available_bytes()
        some_ns, full_ns = self._pressure_ns()
        volumes, seen = self._read_volumes(), WritersSeen()
        if self._counts_host:
            volumes = _with_host(volumes, vmstat)
        if self._writers is not None:
            seen = self._writers.look(volumes, is_busy=_is_busy(vmstat, thresholds))
        return HostSample(
            time_ns=now_ns,
            dirty_bytes=vmstat["nr_dirty"],
            writeback_bytes=vmstat["nr_writeback"],
            thresholds=thresholds,
            dirtyable_bytes=self._dirtyable_bytes(vmstat, thresholds, values, available),
            available_bytes=available,
            values=values,
            volumes=volumes,
            memory_some_ns=some_ns,
            memory_full_ns=full_ns,
            admitted_bytes=seen.admitted_bytes,
            writes=seen.writes,
            groups=seen.groups,
        )

    def _read_vmstat(self) -> tuple[dict[str, int], Thresholds]:
        """Return the counters in bytes, and the thresholds in force."""
        text = b"\n" + _text(self._vmstat)
        found = {name: number_after(text, key) * PAGE_BYTES for name, key in _VMSTAT_KEYS}
        background = found["nr_dirty_background_threshold"]
        return found, Thresholds(background, found["nr_dirty_threshold"])

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
        return number_after(_text(self._meminfo), b"\nMemAvailable:") * 1024

    def _pressure_ns(self) -> tuple[int | None, int | None]:
        if self._pressure is None:
            return None, None
        return parse_pressure(_text(self._pressure))

    def close(self) -> None:
        """Close the files."""
        files = (self._vmstat, self._meminfo, self._pressure, *self._sysctls.values())
        for file in files:
            if file is not None:
                os.close(file)


def _with_host(
    volumes: tuple[VolumeState | None, ...], vmstat: Mapping[str, int]
) -> tuple[VolumeState | None, ...]:
    """Return the host's state for the first volume that is there, and nothing for the others."""
    names = ("nr_dirty", "nr_writeback", "nr_dirtied", "nr_written")
    states = [VolumeState(*(vmstat[name] for name in names))]
    return tuple(
        None if each is None else states.pop() if states else VolumeState(0, 0, 0, 0)
        for each in volumes
    )


def _is_busy(vmstat: Mapping[str, int], thresholds: Thresholds) -> bool:
    return _held_bytes(vmstat) > busy_bytes(thresholds)


def _held_bytes(vmstat: Mapping[str, int]) -> int:
    return vmstat["nr_dirty"] + vmstat["nr_writeback"]


def number_after(text: bytes, key: bytes) -> int:
    """Return the number after `key` in a file of the kernel; a regular expression takes longer.

    Raises ValueError if there is none.
    """
    begin = text.index(key) + len(key)
    return int(text[begin : text.index(b"\n", begin)].removesuffix(b" kB"))


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
