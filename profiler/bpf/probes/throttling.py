# SPDX-License-Identifier: Apache-2.0
"""Counts the sleeps that dirty throttling imposes on all writers of the host.

The layout is that of `throttling.bpf.c`. The time is the planned one, in jiffies: what was slept is
known only with a probe at each context switch (`waits.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.bpf.probe import Probe

MAP = "throttlings"
_WORDS = 2

PROBE = Probe(
    name="throttling",
    sources=("throttling.bpf.c",),
    tracepoints=("writeback:balance_dirty_pages",),
)


@dataclass(frozen=True)
class Throttled:
    """Sleeps since the probe was loaded: their number, and their planned time in ns."""

    pauses: int = 0
    planned_ns: int = 0


def decode_throttled(words: memoryview[int]) -> Throttled:
    """Return the sleeps on all CPUs, from the map's words of 64 bits."""
    return Throttled(pauses=sum(words[0::_WORDS]), planned_ns=sum(words[1::_WORDS]))
