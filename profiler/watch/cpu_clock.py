# SPDX-License-Identifier: Apache-2.0
"""CPU time of processes, and the share of the host's CPUs in use, in the kernel's ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil

from profiler.watch.resources import read_process


@dataclass(frozen=True)
class CpuUse:
    """CPU time of some processes in s (None if one was replaced), and the host's load.

    `host_busy_share` (0 to 1) is the share of all CPUs' time that was neither idle nor waiting for
    I/O, None before the first tick.
    """

    cpu_s: float | None
    host_busy_share: float | None


class CpuClock:
    """Measures the CPU time of processes from now on, with that of children they waited for."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = tuple(pids)
        self._before_s, self._host_before = _used_s(self._pids), psutil.cpu_times()

    def since(self) -> CpuUse:
        """Return the CPU time since the clock was made."""
        after_s, host_after = _used_s(self._pids), psutil.cpu_times()
        if after_s is None or self._before_s is None:
            return CpuUse(None, _busy_share(self._host_before, host_after))
        return CpuUse(after_s - self._before_s, _busy_share(self._host_before, host_after))


def _used_s(pids: Iterable[int]) -> float | None:
    """Return the CPU time of these processes and of children they waited for; None if one ended."""
    samples = [read_process(pid) for pid in pids]
    used = [sample.cpu.user_ns + sample.cpu.system_ns for sample in samples if sample is not None]
    return sum(used) / 1e9 if len(used) == len(samples) else None


def _busy_share(before: Any, after: Any) -> float | None:
    spent = [b - a for a, b in zip(before, after)]
    idle = (after.idle - before.idle) + (after.iowait - before.iowait)
    total = sum(spent[:8])  # user and nice already include the last two, guest times: proc(5)
    return 1 - idle / total if total > 0 else None
