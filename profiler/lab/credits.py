# SPDX-License-Identifier: Apache-2.0
"""The present credits of the emulated volume: pure, from what its device did.

A bucket that ran empty counts as empty until it has a second of its baseline: its cap would else
change at every look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sysctl.volume.limits import Bucket, Ceiling, DataPath

#: The longest and the shortest time between two looks at the device.
LONGEST_LOOK_S, SHORTEST_LOOK_S = 0.1, 0.01
_REFILLED_S = 1.0
#: The kernel's throttle grants up to two of its slices of 100 ms at once.
_SLICES_S = 0.2


@dataclass(frozen=True)
class Moved:
    """What a device has read and written."""

    size_bytes: int
    ios: int

    def since(self, before: Moved) -> Moved:
        """Return the difference."""
        return Moved(self.size_bytes - before.size_bytes, self.ios - before.ios)


@dataclass(frozen=True)
class BucketLevels:
    """The levels of a path's buckets; `ran_empty` are those that have not refilled since."""

    path: DataPath
    levels: tuple[float, ...]
    ran_empty: tuple[bool, ...]

    @property
    def counted(self) -> tuple[float, ...]:
        """The levels that decide the ceiling."""
        return tuple(0.0 if empty else level for level, empty in zip(self.levels, self.ran_empty))

    @property
    def ceiling(self) -> Ceiling:
        """The present limit of the rate."""
        return self.path.rate(self.counted)

    @property
    def next_look_s(self) -> float:
        """The time to the next look at the device: no later than a bucket can run empty."""
        rate = self.ceiling.bytes_per_s
        changes = [
            bucket.baseline_per_s - rate * bucket.credits_per_byte for bucket in self.path.buckets
        ]
        empty_s = [
            level / -change for level, change in zip(self.counted, changes) if level > 0 > change
        ]
        return max(SHORTEST_LOOK_S, min([LONGEST_LOOK_S, *empty_s]))

    def after(self, time_s: float, moved: Moved, *, was_lifted: bool) -> BucketLevels:
        """Return the credits after a time in which the device moved so much.

        While the cap is lifted, the device moves more than the volume could: that costs no more
        than the ceiling.
        """
        may_s = time_s + (0.0 if was_lifted else _SLICES_S)
        most_bytes = self.ceiling.bytes_per_s * may_s
        counted = replace(moved, size_bytes=min(moved.size_bytes, round(most_bytes)))
        levels = tuple(
            _level(bucket, level, time_s, _at_most(bucket, counted, may_s))
            for bucket, level in zip(self.path.buckets, self.levels)
        )
        ran_empty = tuple(
            level <= 0 or (empty and level < _refilled(bucket))
            for bucket, level, empty in zip(self.path.buckets, levels, self.ran_empty)
        )
        return BucketLevels(self.path, levels, ran_empty)


def begin(path: DataPath, levels: tuple[float, ...]) -> BucketLevels:
    """Return the credits at the start."""
    return BucketLevels(path, levels, tuple(level <= 0 for level in levels))


def counts_ios(bucket: Bucket) -> bool:
    """Return whether its credits are I/Os rather than bytes: a byte is a part of one."""
    return bucket.credits_per_byte < 1


def _at_most(bucket: Bucket, moved: Moved, time_s: float) -> Moved:
    """Return what was moved, with no more I/Os than the bucket's burst allows in that time."""
    return replace(moved, ios=min(moved.ios, round(bucket.burst_per_s * time_s)))


def _level(bucket: Bucket, level: float, time_s: float, moved: Moved) -> float:
    """Return the new level; I/Os are counted as they are, but at least as many as the size has."""
    used = moved.size_bytes * bucket.credits_per_byte
    if counts_ios(bucket):
        used = max(used, float(moved.ios))
    return min(bucket.capacity, max(0.0, level + bucket.baseline_per_s * time_s - used))


def _refilled(bucket: Bucket) -> float:
    return min(bucket.capacity / 2, bucket.baseline_per_s * _REFILLED_S)
