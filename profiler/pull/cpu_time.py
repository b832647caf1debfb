"""CPU time: of processes, and the share of the host's that was in use. In the kernel's ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil


@dataclass(frozen=True)
class CpuUse:
    """CPU time of some processes in s, None if one of them was replaced, and of the host.

    `host_busy_share` (0 to 1) is the part of all CPUs' time that was neither idle nor waiting for a
    disk, None where no tick has gone by.
    """

    cpu_s: float | None
    host_busy_share: float | None


class CpuClock:
    """What processes use from now on, with the programs that they ran to their end."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = tuple(pids)
        self._before_s, self._host_before = _used_s(self._pids), psutil.cpu_times()

    def since(self) -> CpuUse:
        """What was used since the clock was made."""
        after_s, host_after = _used_s(self._pids), psutil.cpu_times()
        if after_s is None or self._before_s is None:
            return CpuUse(None, _busy_share(self._host_before, host_after))
        return CpuUse(after_s - self._before_s, _busy_share(self._host_before, host_after))


def _used_s(pids: Iterable[int]) -> float | None:
    """What these processes, and children that they waited for, have used; None if one has ended."""
    try:
        times = [psutil.Process(pid).cpu_times() for pid in pids]
    except psutil.Error:
        return None
    return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))


def _busy_share(before: Any, after: Any) -> float | None:
    spent = [b - a for a, b in zip(before, after)]
    idle = (after.idle - before.idle) + (after.iowait - before.iowait)
    total = sum(spent[:8])  # guest times, the last two, are in user and nice already: proc(5)
    return 1 - idle / total if total > 0 else None
