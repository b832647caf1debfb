"""CPU time: of processes, and the share of the host's that was in use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psutil


def cpu_seconds(pids: Iterable[int]) -> float | None:
    """What these processes have used since they began; None if one has ended."""
    try:
        times = [psutil.Process(pid).cpu_times() for pid in pids]
    except psutil.Error:
        return None
    return float(sum(each.user + each.system for each in times))


def host_times() -> Any:
    """All CPUs' times since boot, for `busy_share`."""
    return psutil.cpu_times()


def busy_share(before: Any, after: Any) -> float | None:
    """The share (0 to 1) of the CPUs' time that was neither idle nor waiting for a disk.

    None where no time has gone by: the kernel counts in ticks.
    """
    spent = [b - a for a, b in zip(before, after)]
    idle = (after.idle - before.idle) + (after.iowait - before.iowait)
    total = sum(spent[:8])  # guest times, the last two, are in user and nice already: proc(5)
    return 1 - idle / total if total > 0 else None
