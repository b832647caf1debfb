# SPDX-License-Identifier: Apache-2.0
"""The course of a pull, from its timeline: what was held in memory, and what disks had written."""

from __future__ import annotations

from profiler.watch.timeline import Timeline
from sysctl.evidence.results import TracePoint

#: Number of points of a pull's course that are kept.
TRACE_POINTS = 250


def trace_of(timeline: Timeline | None, names: set[str]) -> tuple[TracePoint, ...]:
    """Return a pull's course, thinned out, with the bytes written by the disks of these names.

    It has no points without such disks. A mirror writes everything twice.
    """
    at = [i for i, name in enumerate(timeline.devices) if name in names] if timeline else []
    if timeline is None or not at:
        return ()
    first = sum(timeline.first.devices[i].written_bytes for i in at)
    step = -(-len(timeline.samples) // TRACE_POINTS)
    return tuple(
        TracePoint(
            sample.time_ns / 1e9,
            sample.held_bytes,
            sum(sample.devices[i].written_bytes for i in at) - first,
        )
        for sample in timeline.samples[::step]
    )
