# SPDX-License-Identifier: Apache-2.0
"""Repeated pulls with pauses: the first slow pull, and the steady state.

Many pulls in a row differ only in their initial credits, each by the same amount. So they are
skipped in one step, and the computation of thousands of pulls takes as long as that of a few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sysctl.volume.limits import DataPath, LimitedBy
from sysctl.volume.timeline import Course, pull, rest

DAY_S = 86400.0
#: A pull is slow if it takes at least this share longer than with full buckets.
_SLOWER = 1e-6
#: Credits within this share of the capacity are equal: the sums are rounded.
_SAME = 1e-9
#: Far more steps than any path needed; it only prevents a loop after a rounding error.
_MOST_STEPS = 10_000


@dataclass(frozen=True)
class Repeated:
    """Endless pulls. `first_slow_pull` counts from 1; None if all are fast.

    `steady` is the course that each pull has in the steady state.
    """

    first_slow_pull: int | None
    steady: Course


def repeat(path: DataPath, size_bytes: float, levels: Sequence[float], idle_s: float) -> Repeated:
    """Return the course of pulls with `idle_s` from the end of one to the start of the next."""
    fast_s = pull(path, size_bytes, path.full()).durable_s
    number, first_slow, drift_before = 1, None, None
    before = tuple(levels)
    for _ in range(_MOST_STEPS):
        course = pull(path, size_bytes, before)
        if first_slow is None and course.durable_s > fast_s * (1 + _SLOWER):
            first_slow = number
        after = rest(path, course.levels_after, idle_s)
        drift = tuple(end - begin for begin, end in zip(before, after))
        if _is_steady(path, drift):
            break
        is_even = len(course.phases) == 1 or _is_same(path, drift, drift_before)
        passed = _pulls_alike(course, drift) if is_even else 0
        if passed == math.inf:
            break
        number += 1 + int(passed)
        before = tuple(
            min(bucket.capacity, level + change * passed)
            for bucket, level, change in zip(path.buckets, after, drift)
        )
        drift_before = drift
    return Repeated(first_slow, course)


def courses(
    path: DataPath, size_bytes: float, levels: Sequence[float], idle_s: float
) -> Iterator[Course]:
    """Yield the pulls one after the other, endlessly."""
    before = tuple(levels)
    while True:
        course = pull(path, size_bytes, before)
        yield course
        before = rest(path, course.levels_after, idle_s)


def pulls_per_day(path: DataPath, size_bytes: float) -> float:
    """Return how many pulls a day can be fast forever: N <= baseline x period."""
    fast_s = pull(path, size_bytes, path.full()).durable_s
    earned = (
        DAY_S * bucket.baseline_per_s / (size_bytes * bucket.credits_per_byte)
        for bucket in path.buckets
    )
    return min(DAY_S / fast_s, *earned) if path.buckets else DAY_S / fast_s


def guaranteed_pulls_per_day(path: DataPath, size_bytes: float) -> int | None:
    """Return how many fast pulls the instance's credits allow if they are filled once in 24 h.

    AWS guarantees no more. None if the pull uses no instance credits.
    """
    full = path.full()
    course = pull(path, size_bytes, full)
    carried = [
        bucket.capacity / (before - after)
        for bucket, before, after in zip(path.buckets, full, course.levels_after)
        if bucket.owner is LimitedBy.INSTANCE and after < before
    ]
    return int(min(carried)) if carried else None


def _is_steady(path: DataPath, drift: Sequence[float]) -> bool:
    return all(abs(each) <= _SAME * bucket.capacity for bucket, each in zip(path.buckets, drift))


def _is_same(path: DataPath, drift: Sequence[float], other: Sequence[float] | None) -> bool:
    if other is None:
        return False
    return _is_steady(path, [one - two for one, two in zip(drift, other)])


def _pulls_alike(course: Course, drift: Sequence[float]) -> float:
    """Return how many of the next pulls are like this one; infinite if no bucket gets emptier.

    A bucket that gets emptier with each pull continues to do so until it runs empty in a pull.
    """
    seen = (course.phases[0].levels_before, *(phase.levels_after for phase in course.phases))
    lowest = [min(levels) for levels in zip(*seen)]
    if any(low <= 0 and change > 0 for low, change in zip(lowest, drift)):
        return 0.0  # it was empty, and no longer will be
    spare = [low / -change for low, change in zip(lowest, drift) if change < 0]
    return float(max(0, math.floor(min(spare)))) if spare else math.inf
