# SPDX-License-Identifier: Apache-2.0
"""How much data was only in memory during a run, and how long programs waited for I/O.

Both are of the whole host, from counters that the kernel keeps anyway: no probe is attached.
"""

from __future__ import annotations

from profiler.watch.pressure import read_pressure
from profiler.watch.timeline import read_vmstat
from sysctl.host.system import System

_NS_PER_S = 10**9


class AtRisk:
    """Bytes dirty or under write-back, above what was there when this object was made."""

    def __init__(self, system: System) -> None:
        self._vmstat = system.path("/proc/vmstat")
        self._start_bytes = self._held_bytes()
        self.peak_bytes = 0
        self.bytes = 0

    def sample(self) -> None:
        """Read the counters."""
        self.bytes = max(0, self._held_bytes() - self._start_bytes)
        self.peak_bytes = max(self.peak_bytes, self.bytes)

    def _held_bytes(self) -> int:
        dirty_bytes, writeback_bytes, *_ = read_vmstat(self._vmstat)
        return dirty_bytes + writeback_bytes


class IoWait:
    """The time in which some program of the host waited for I/O, since this object was made."""

    def __init__(self, system: System) -> None:
        self._pressure = system.path("/proc/pressure/io")
        self._start_ns = read_pressure(self._pressure)[0]

    def seconds(self) -> float | None:
        """Return the time in s; None if the kernel does not count it (CONFIG_PSI, psi=0)."""
        now_ns = read_pressure(self._pressure)[0]
        if now_ns is None or self._start_ns is None:
            return None
        return (now_ns - self._start_ns) / _NS_PER_S
