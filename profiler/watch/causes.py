# SPDX-License-Identifier: Apache-2.0
"""Why writes took their time: the time by cause, and the main cause.

Writes count as slow if writers spent at least 5 % of the run in write calls. The main cause is the
longest wait, if it is at least 10 % of that time; otherwise it is copying, on the CPU. If write
calls were not slow, dirty throttling outside of them for 5 % of the run is the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts.causes import Cause
from contracts.model import CallType
from contracts.stats import CallStats
from profiler.bpf.disks import BlockDevice
from profiler.watch.timeline import Timeline

if TYPE_CHECKING:
    from profiler.bpf.probes.block import DeviceStats
    from profiler.bpf.probes.waits import StalledWriter, StallStats
    from profiler.watch.volumes import VolumeUse

SLOW_SHARE = 0.05
_WAIT_SHARE = 0.10


_WAITS = tuple(cause for cause in Cause if cause is not Cause.ON_CPU)


@dataclass(frozen=True)
class WhyInputs:
    """The data of a run from which causes are found.

    `calls` are the writes in scope (`profiler.watch.write_calls`), `call_types` their types.
    `writers` is the number of threads that made them, None if unknown. `sees_uring` is whether
    requests to io_uring are included. `stall` covers everything that the threads in scope did,
    `stalled` the same by command and device. `devices` are the disks that were written to, with
    their requests during the run, `volumes` the EBS volumes among them. `fsyncs` are the fsync
    calls, None if nothing counted them.
    """

    calls: CallStats
    elapsed_ns: int
    stall: StallStats
    call_types: tuple[CallType, ...] = (CallType.WRITE,)
    writers: int | None = None
    sees_uring: bool = True
    timeline: Timeline | None = None
    devices: tuple[tuple[BlockDevice, DeviceStats], ...] = ()
    fsyncs: CallStats | None = None
    stalled: tuple[StalledWriter, ...] = ()
    volumes: tuple[VolumeUse, ...] = ()

    @property
    def is_throttled_elsewhere(self) -> bool:
        """Whether the threads in scope were throttled for long outside of the calls.

        The usual reason is stores to mapped files, whose page faults wait.
        """
        outside_ns = self.stall.total_ns - self.calls.throttled_ns
        return outside_ns > max(self.calls.latency_total_ns, SLOW_SHARE * self.elapsed_ns)


@dataclass(frozen=True)
class Part:
    """The time that the calls spent on one cause, and its share of their total time, 0 to 1."""

    cause: Cause
    time_ns: int
    share: float


def split(calls: CallStats) -> tuple[Part, ...]:
    """Return the calls' time by cause, in the order of `Cause`; the remainder is time on a CPU."""
    times = {
        Cause.THROTTLING: calls.throttled_ns,
        Cause.DEVICE: calls.device_wait_ns,
        Cause.SLEEPING: calls.sleeping_ns,
        Cause.QUEUED: calls.queued_ns,
        Cause.ASYNCHRONOUS: calls.asynchronous_ns,
        Cause.ON_CPU: calls.on_cpu_ns,
    }
    whole_ns = calls.latency_total_ns or 1
    return tuple(Part(cause, time_ns, time_ns / whole_ns) for cause, time_ns in times.items())


def main_cause(why: WhyInputs) -> Cause | None:
    """Return what the writers spent most of their time on; None if the writes were not slow."""
    if not why.calls.count or why.calls.latency_total_ns < SLOW_SHARE * why.elapsed_ns:
        return Cause.THROTTLING if why.is_throttled_elsewhere else None
    longest = max(
        (part for part in split(why.calls) if part.cause in _WAITS), key=lambda part: part.time_ns
    )
    return longest.cause if longest.share >= _WAIT_SHARE else Cause.ON_CPU
