"""How fast the source brought data and the device took it, as the course of a pull shows it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from sysctl.results import Observation, TracePoint

#: The pull's first bytes are late (connections are opened), its last ones too (stragglers).
_START_SHARE, _END_SHARE = 0.05, 0.95
#: Fewer points say nothing of a rate.
_MIN_POINTS = 3


def source_rate_bytes_per_s(seen: Observation) -> float:
    """What the source brings to writers that need not wait.

    From the course of the pull up to the freerun ceiling. Without one (or where the ceiling was
    passed at once) what was pulled, over the time that writers did not sleep in dirty throttling:
    a lower bound, since the kernel's planned pauses are one of the sleep.
    """
    course = _before_freerun(seen)
    if len(course) >= _MIN_POINTS:
        rate = _slope([point.time_s for point in course], [_arrived(p, seen) for p in course])
        if rate > 0:
            return rate
    return seen.bytes / (seen.return_s * max(0.01, 1 - seen.stall_share))


def device_rate_bytes_per_s(seen: Observation) -> float | None:
    """What the destination's device took while it wrote all the time; None if it is not known.

    From the course of the pull, from where writers were held against their freerun ceiling on (the
    device was the bottleneck then); without that, from the time until all was on the device.
    """
    held = [p for p in seen.trace if p.held_bytes > seen.thresholds.freerun_bytes]
    if len(held) >= _MIN_POINTS:
        rate = _slope([point.time_s for point in held], [point.written_bytes for point in held])
        if rate > 0:
            return rate
    return seen.bytes / seen.durable_s if seen.durable_s else None


def _before_freerun(seen: Observation) -> Sequence[TracePoint]:
    """The points between the pull's first bytes and the freerun ceiling."""
    course: list[TracePoint] = []
    for point in seen.trace:
        if point.held_bytes > seen.thresholds.freerun_bytes:
            break
        if _START_SHARE * seen.bytes <= _arrived(point, seen) <= _END_SHARE * seen.bytes:
            course.append(point)
    return course


def _arrived(point: TracePoint, seen: Observation) -> int:
    """Bytes that the pull had dirtied: held now, or written already."""
    return point.held_bytes - seen.trace[0].held_bytes + point.written_bytes


def _slope(times_s: Sequence[float], values: Sequence[float]) -> float:
    """The slope through first and last third's medians: a late sample moves it little."""
    third = max(1, len(times_s) // 3)
    span_s = statistics.median(times_s[-third:]) - statistics.median(times_s[:third])
    if span_s <= 0:
        return 0.0
    return (statistics.median(values[-third:]) - statistics.median(values[:third])) / span_s
