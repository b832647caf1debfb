# SPDX-License-Identifier: Apache-2.0
"""Memory and CPU time of the profiled processes, and CPU time of the host, from psutil.

Memory is sampled, so peaks between samples are missed. CPU time has the resolution of the kernel's
clock ticks (10 ms). The CPU time of a process that ends is complete if its parent, which waits for
it, is followed; otherwise the time after the last sample is lost.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from contracts.stats import ResourceUsage, merge_usage
from profiler.watch.group_processes import processes_below

SAMPLE_INTERVAL_NS = 100 * 10**6
#: The share of one CPU that sampling may take; with many processes there are fewer samples.
SAMPLE_SHARE = 0.05
_NS_PER_S = 10**9


@dataclass(frozen=True)
class CpuTime:
    """CPU time in ns, in user space and in the kernel."""

    user_ns: int = 0
    system_ns: int = 0

    def __add__(self, other: CpuTime) -> CpuTime:
        return CpuTime(self.user_ns + other.user_ns, self.system_ns + other.system_ns)

    def __sub__(self, other: CpuTime) -> CpuTime:
        return CpuTime(self.user_ns - other.user_ns, self.system_ns - other.system_ns)


@dataclass(frozen=True)
class ProcessSample:
    """A process at one moment; `cpu` includes the children that it has waited for."""

    parent_pid: int
    rss_bytes: int
    swap_bytes: int
    vsize_bytes: int
    cpu: CpuTime


def read_process(pid: int) -> ProcessSample | None:
    """Return the process `pid` now; None if it is gone. A zombie has only CPU time."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            memory, times, parent_pid = process.memory_info(), process.cpu_times(), process.ppid()
    except psutil.Error:
        return None
    user_s, system_s = times.user + times.children_user, times.system + times.children_system
    cpu = CpuTime(_ns(user_s), _ns(system_s))
    return ProcessSample(parent_pid, memory.rss, read_swap_bytes(pid), memory.vms, cpu)


def read_swap_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Return a process's swapped-out memory from its `status`; psutil would sum `smaps`."""
    with contextlib.suppress(OSError):
        for line in (proc / str(pid) / "status").read_bytes().splitlines():
            if line.startswith(b"VmSwap:"):
                return int(line.split()[1]) * 1024
    return 0


def read_host() -> ResourceUsage:
    """Return the time of all CPUs since boot: user includes nice, system includes interrupts."""
    times = psutil.cpu_times()
    return ResourceUsage(
        host_user_ns=_ns(times.user + times.nice),
        host_system_ns=_ns(times.system + times.irq + times.softirq),
        host_iowait_ns=_ns(times.iowait),
    )


def own_children() -> CpuTime:
    """Return the CPU time of children that this process has waited for: ended commands."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return CpuTime(_ns(used.ru_utime), _ns(used.ru_stime))


def tree_below(*pids: int) -> Callable[[], Iterable[int]]:
    """Return a function that finds `pids` and their descendants, also orphans seen before."""
    known: set[psutil.Process] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            known.add(psutil.Process(pid))

    def look() -> list[int]:
        for process in [each for each in known if each.pid in pids]:
            with contextlib.suppress(psutil.Error):
                known.update(process.children(recursive=True))
        known.intersection_update([each for each in known if each.is_running()])
        return [process.pid for process in known]

    return look


def every_process() -> Iterable[int]:
    """Return all processes of the host."""
    return psutil.pids()


def narrowed(
    pids: Callable[[], Iterable[int]], comm: str | None, cgroup: str | None
) -> Callable[[], Iterable[int]]:
    """Return a function that finds those of `pids` with the name `comm` that are below `cgroup`.

    None lets all pass. `comm` is the main thread's name, `cgroup` a directory of a mounted cgroup
    file system.
    """

    def look() -> list[int]:
        group = None if cgroup is None else processes_below(Path(cgroup))
        return [
            pid
            for pid in pids()
            if (group is None or pid in group) and (comm is None or _comm(pid) == comm)
        ]

    return pids if comm is None and cgroup is None else look


def _comm(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_bytes()[:-1].decode(errors="surrogateescape")
    return ""


class ResourceSampler:
    """Computes a `ResourceUsage` for each timeframe from samples.

    `pids` is called for each sample and returns the processes to follow; the caller's own process
    is excluded.
    """

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        *,
        read: Callable[[int], ProcessSample | None] = read_process,
        host: Callable[[], ResourceUsage] = read_host,
        waited_for: Callable[[], CpuTime] = own_children,
        own_pid: int | None = None,
    ) -> None:
        self._pids, self._read, self._host = pids, read, host
        self._waited_for = waited_for
        self._own_pid = os.getpid() if own_pid is None else own_pid
        self._known: dict[int, ProcessSample] = {}
        self._ended = CpuTime()
        self._peak = ResourceUsage()
        self.sample()
        self._cpu_before, self._host_before = self._cpu(), host()

    def sample(self) -> None:
        """Sample the processes, to update the frame's peak memory and the use of ended ones."""
        samples = {pid: self._read(pid) for pid in self._pids() if pid != self._own_pid}
        living = {pid: sample for pid, sample in samples.items() if sample is not None}
        for pid, last in self._known.items():
            if pid not in living and not self._is_waited_for(pid, living):
                self._ended += last.cpu
        self._known = living
        self._peak = merge_usage([self._peak, _memory(living.values())])

    def take(self) -> ResourceUsage:
        """Take a sample and return the usage since the last call."""
        self.sample()
        cpu, host = self._cpu(), self._host()
        used = cpu - self._cpu_before
        usage = replace(
            self._peak,
            user_ns=max(0, used.user_ns),
            system_ns=max(0, used.system_ns),
            host_user_ns=max(0, host.host_user_ns - self._host_before.host_user_ns),
            host_system_ns=max(0, host.host_system_ns - self._host_before.host_system_ns),
            host_iowait_ns=max(0, host.host_iowait_ns - self._host_before.host_iowait_ns),
        )
        self._cpu_before, self._host_before, self._peak = cpu, host, ResourceUsage()
        return usage

    def _cpu(self) -> CpuTime:
        living = (sample.cpu for sample in self._known.values())
        return sum(living, self._ended + self._waited_for())

    def _is_waited_for(self, pid: int, living: dict[int, ProcessSample]) -> bool:
        """Return whether a followed ancestor, or this process, has the ended process's CPU time."""
        while pid in self._known and pid not in living:
            pid = self._known[pid].parent_pid
        return pid in living or pid == self._own_pid


def _memory(samples: Iterable[ProcessSample]) -> ResourceUsage:
    """Return the total memory; shared pages count once for each process."""
    listed = list(samples)
    rss_bytes = sum(sample.rss_bytes for sample in listed)
    return ResourceUsage(
        memory_bytes=rss_bytes + sum(sample.swap_bytes for sample in listed),
        rss_bytes=rss_bytes,
        vsize_bytes=sum(sample.vsize_bytes for sample in listed),
    )


def _ns(seconds: float) -> int:
    return round(seconds * _NS_PER_S)
