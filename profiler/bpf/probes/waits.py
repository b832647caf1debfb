# SPDX-License-Identifier: Apache-2.0
"""Finds why threads in scope wait, and how long dirty throttling made them sleep.

The layout is that of `waits.bpf.c`. The waits of a call go into the statistics of its slots
(`calls.py`); the stalls here are those of all threads in scope, whatever they wrote to.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from profiler.bpf.probe import Probe
from profiler.bpf.probes.scope import SHARED_SOURCES

STALL_WORDS = 6
_SLEPT = 3  # its place in these words
STALLED_MAP = "stalled_writers"
_STALLED_KEY, _STALLED_VALUE = struct.Struct("=16s32s"), struct.Struct("=Q")
#: Programs whose skipped runs lose no call: without a wake-up, the sleep only seems longer.
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
    """Writers' sleeps in dirty throttling, summed over all threads in scope.

    `events` are the kernel's checks of a writer above the free-running level, `pauses` those that
    led to a sleep. `total_ns` is the time slept until the wake-up, `planned_ns` the time that the
    kernel announced, in jiffies. `dirty_max_bytes` and `limit_max_bytes` are the largest dirty
    memory and limit in any event, 0 without events.
    """

    events: int = 0
    pauses: int = 0
    total_ns: int = 0
    dirty_max_bytes: int = 0
    limit_max_bytes: int = 0
    planned_ns: int = 0


@dataclass(frozen=True)
class StalledWriter:
    """The sleeps that the kernel planned for threads with one name that wrote to one device.

    `device` is the name of the backing device: `MAJOR:MINOR` of a disk, else the name that the file
    system gives it (`btrfs-1`).
    """

    command: str
    device: str
    planned_ns: int


def decode_stalled(entries: Mapping[bytes, bytes]) -> dict[tuple[str, str], int]:
    """Return the planned sleeps in ns by command and device, from the map `stalled_writers`."""
    return {
        (_text(command), _text(device)): _STALLED_VALUE.unpack(value)[0]
        for key, value in entries.items()
        for command, device in [_STALLED_KEY.unpack(key)]
    }


def _text(name: bytes) -> str:
    return name.partition(b"\0")[0].decode(errors="replace")


def slept_ns(stalls: memoryview[int], bank: int, cpus: int) -> int:
    """Return the time slept on all CPUs in one bank, which `decode_stalls` has as `total_ns`."""
    first = bank * cpus * STALL_WORDS
    return sum(stalls[first + _SLEPT : first + cpus * STALL_WORDS : STALL_WORDS])


def decode_stalls(stalls: memoryview[int], bank: int, cpus: int, page_bytes: int) -> StallStats:
    """Return the sleeps on all CPUs in one bank, from the map `stalls` in words of 64 bits."""
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
