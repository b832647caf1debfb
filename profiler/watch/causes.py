"""Why writes took their time: what is known of a run, its split by cause, and the main one.

What counts as slow: writers spent at least a twentieth of the run in write calls. What is named as
the cause: the longest of the waits, if it is a tenth of that time or more; else it was the copying.
Where write calls were not slow, dirty throttling of a twentieth of the run outside of them is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts.model import CallType
from contracts.stats import CallStats
from profiler.bpf.disks import BlockDevice
from profiler.watch.timeline import Timeline

if TYPE_CHECKING:
    from profiler.bpf.probes.block import DeviceStats
    from profiler.bpf.probes.waits import StallStats

SLOW_SHARE = 0.05
_WAIT_SHARE = 0.10


class Cause(enum.Enum):
    """What a write call spends its time on; the value is its name in the table and in JSON."""

    THROTTLING = "dirty throttling"
    DEVICE = "waiting for the device"
    SLEEPING = "other sleeping"
    QUEUED = "waiting for a CPU"
    ASYNCHRONOUS = "in io_uring"
    ON_CPU = "on CPU"


_WAITS = tuple(cause for cause in Cause if cause is not Cause.ON_CPU)


@dataclass(frozen=True)
class WhyInputs:
    """What is known of a run.

    `calls` are the writes in scope (`profiler.watch.write_calls`) and `call_types` what they are;
    `writers` is how many threads made them, None if not known; `sees_uring` whether requests to
    io_uring are among the calls. `stall` is of all that the threads
    in scope did. `devices` are the disks that were written to, with what they did in the run.
    """

    calls: CallStats
    elapsed_ns: int
    stall: StallStats
    call_types: tuple[CallType, ...] = (CallType.WRITE,)
    writers: int | None = None
    sees_uring: bool = True
    timeline: Timeline | None = None
    devices: tuple[tuple[BlockDevice, DeviceStats], ...] = ()

    @property
    def is_throttled_elsewhere(self) -> bool:
        """Whether the threads in scope slept for dirty throttling outside of the calls, and long.

        Nearly all of it for stores to mapped files, whose page faults wait.
        """
        outside_ns = self.stall.total_ns - self.calls.throttled_ns
        return outside_ns > max(self.calls.latency_total_ns, SLOW_SHARE * self.elapsed_ns)


@dataclass(frozen=True)
class Part:
    """The time that the calls spent on one cause, and its share of all their time, 0 to 1."""

    cause: Cause
    time_ns: int
    share: float


def split(calls: CallStats) -> tuple[Part, ...]:
    """The calls' time by cause, in the order of `Cause`; what is left over ran on a CPU."""
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
    """What the writers spent most of their time on; None when the writes were not slow."""
    if not why.calls.count or why.calls.latency_total_ns < SLOW_SHARE * why.elapsed_ns:
        return Cause.THROTTLING if why.is_throttled_elsewhere else None
    longest = max(
        (part for part in split(why.calls) if part.cause in _WAITS), key=lambda part: part.time_ns
    )
    return longest.cause if longest.share >= _WAIT_SHARE else Cause.ON_CPU
