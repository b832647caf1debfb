# SPDX-License-Identifier: Apache-2.0
"""The course of one pull: phases of constant rate, computed exactly, without time steps.

A phase ends when the pull ends or a bucket runs empty. The rate never rises during a pull, since
the owner of a bucket that fills again does not limit the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.volume.limits import OUT_OF_CREDITS, Bucket, DataPath, LimitedBy


@dataclass(frozen=True)
class RatePhase:
    """A part of a pull with one rate. Times in s from the pull's start; levels in credits."""

    begins_s: float
    ends_s: float
    bytes_per_s: float
    limited_by: LimitedBy
    levels_before: tuple[float, ...]
    levels_after: tuple[float, ...]

    @property
    def duration_s(self) -> float:
        """The duration."""
        return self.ends_s - self.begins_s

    @property
    def size_bytes(self) -> float:
        """The bytes written in it."""
        return self.duration_s * self.bytes_per_s


@dataclass(frozen=True)
class Course:
    """A pull from its first byte until the volume has all data: at least one phase."""

    phases: tuple[RatePhase, ...]

    @property
    def durable_s(self) -> float:
        """When the volume has all data, if write-back begins at once."""
        return self.phases[-1].ends_s

    @property
    def levels_after(self) -> tuple[float, ...]:
        """The remaining credits."""
        return self.phases[-1].levels_after

    @property
    def falls_at_s(self) -> float | None:
        """When a lack of credits first limits the rate; None if it never does."""
        return next(
            (each.begins_s for each in self.phases if each.limited_by in OUT_OF_CREDITS), None
        )

    @property
    def limited_by(self) -> LimitedBy:
        """What limits the rate for the longest time."""
        time_s: dict[LimitedBy, float] = {}
        for phase in self.phases:
            time_s[phase.limited_by] = time_s.get(phase.limited_by, 0.0) + phase.duration_s
        return max(time_s, key=lambda each: time_s[each])


def pull(path: DataPath, size_bytes: float, levels: Sequence[float]) -> Course:
    """Return the course of a pull that begins with these credits."""
    phases: list[RatePhase] = []
    now_s, left_bytes, before = 0.0, float(size_bytes), tuple(levels)
    while not phases or left_bytes > 0:
        ceiling = path.rate(before)
        rate = ceiling.bytes_per_s
        changes = [_change(*each, rate) for each in zip(path.buckets, before)]
        empty_s = [level / -change for level, change in zip(before, changes) if change < 0]
        to_end_s = left_bytes / rate
        lasts_s = min(to_end_s, *empty_s) if empty_s else to_end_s
        after = tuple(
            0.0
            if change < 0 and level / -change <= lasts_s
            else _kept(bucket, level, change, lasts_s)
            for bucket, level, change in zip(path.buckets, before, changes)
        )
        phases.append(RatePhase(now_s, now_s + lasts_s, rate, ceiling.owner, before, after))
        left_bytes = 0.0 if lasts_s == to_end_s else left_bytes - lasts_s * rate
        now_s, before = now_s + lasts_s, after
    return Course(tuple(phases))


def rest(path: DataPath, levels: Sequence[float], idle_s: float) -> tuple[float, ...]:
    """Return the credits after a time without I/O."""
    return tuple(
        _kept(bucket, level, bucket.baseline_per_s, idle_s)
        for bucket, level in zip(path.buckets, levels)
    )


def _change(bucket: Bucket, level: float, bytes_per_s: float) -> float:
    """Return the change of the credits per second; an empty bucket cannot lose any."""
    change = bucket.baseline_per_s - bytes_per_s * bucket.credits_per_byte
    return change if level > 0 else max(0.0, change)


def _kept(bucket: Bucket, level: float, change: float, time_s: float) -> float:
    return min(bucket.capacity, max(0.0, level + change * time_s))
