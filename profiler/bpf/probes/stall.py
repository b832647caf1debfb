"""The sleeps that dirty throttling gave the writers in scope, whatever the path they wrote to.

The layout is that of `stall.bpf.c`. Sleeps are what the kernel planned, in steps of a jiffy; waits
for a lock, the journal or a free page are not in them.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.bpf.probe import Probe
from profiler.bpf.probes.scope import SHARED_SOURCE

STALL_WORDS = 5

PROBE = Probe(
    name="stall",
    sources=(SHARED_SOURCE, "stall.bpf.c"),
    tracepoints=("writeback:balance_dirty_pages",),
)


@dataclass(frozen=True)
class StallStats:
    """Writers' sleeps for dirty throttling, summed over all threads in scope.

    `events` are looks at the dirty pages above the free-running level, `pauses` those that slept,
    `total_ns` the sum of their sleeps. `dirty_max_bytes` and `limit_max_bytes` are the most dirty
    memory and the highest limit that an event saw; 0 without events.
    """

    events: int = 0
    pauses: int = 0
    total_ns: int = 0
    dirty_max_bytes: int = 0
    limit_max_bytes: int = 0


def decode_stalls(stalls: memoryview[int], bank: int, cpus: int, page_bytes: int) -> StallStats:
    """The sleeps on all CPUs in one bank, from the map `stalls` in words of 64 bits."""
    words = stalls[bank * cpus * STALL_WORDS :][: cpus * STALL_WORDS]
    events, pauses, total_ns, dirty, limit = (words[at::STALL_WORDS] for at in range(STALL_WORDS))
    return StallStats(
        sum(events), sum(pauses), sum(total_ns), max(dirty) * page_bytes, max(limit) * page_bytes
    )
