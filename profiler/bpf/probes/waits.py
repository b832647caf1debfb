"""Why threads in scope wait, and the sleeps that dirty throttling gave them.

The layout is that of `waits.bpf.c`. The waits of a call go into the statistics of its slots
(`calls.py`); the stalls here are of all threads in scope, whatever they wrote to.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.bpf.probe import Probe
from profiler.bpf.probes.scope import SHARED_SOURCES

STALL_WORDS = 6
#: Programs whose missed runs lose no call: a wake-up not seen is taken for a longer sleep.
HARMLESS = ("raw_tracepoint__sched_wakeup",)

PROBE = Probe(
    name="waits",
    sources=(*SHARED_SOURCES, "waits.bpf.c"),
    tracepoints=("writeback:balance_dirty_pages", "sched:sched_switch"),
    raw_tracepoints=("sched_wakeup",),
    members={
        "OFFSET_TASK_IOWAIT": ("task_struct", "in_iowait"),
        "OFFSET_TASK_PID": ("task_struct", "pid"),
        "BIT_TASK_IOWAIT": ("task_struct", "in_iowait"),
    },
)


@dataclass(frozen=True)
class StallStats:
    """Writers' sleeps for dirty throttling, summed over all threads in scope.

    `events` are looks at the dirty pages above the free-running level, `pauses` those that slept,
    `total_ns` the time slept, to the wake-up, and `planned_ns` what the kernel announced of it, in
    steps of a jiffy. `dirty_max_bytes` and `limit_max_bytes` are the most dirty memory and the
    highest limit that an event saw; 0 without events.
    """

    events: int = 0
    pauses: int = 0
    total_ns: int = 0
    dirty_max_bytes: int = 0
    limit_max_bytes: int = 0
    planned_ns: int = 0


def decode_stalls(stalls: memoryview[int], bank: int, cpus: int, page_bytes: int) -> StallStats:
    """The sleeps on all CPUs in one bank, from the map `stalls` in words of 64 bits."""
    words = stalls[bank * cpus * STALL_WORDS :][: cpus * STALL_WORDS]
    events, pauses, planned_ns, slept_ns, dirty, limit = (
        words[at::STALL_WORDS] for at in range(STALL_WORDS)
    )
    return StallStats(
        events=sum(events),
        pauses=sum(pauses),
        planned_ns=sum(planned_ns),
        total_ns=sum(slept_ns),
        dirty_max_bytes=max(dirty) * page_bytes,
        limit_max_bytes=max(limit) * page_bytes,
    )
