# SPDX-License-Identifier: Apache-2.0
"""The limits of a pull's rate on its way to the volume: fixed ceilings and credit buckets.

A bucket of credits fills at its baseline rate and empties at the rate of use: dL/dt = baseline -
use, 0 <= L <= capacity. While it has credits, the burst rate is the ceiling, else the baseline
(Amazon EC2 User Guide, "Amazon EBS volume types", burst buckets).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

MIB, GIB = 2**20, 2**30


class LimitedBy(enum.Enum):
    """What limits the rate of a pull at some moment."""

    NETWORK = "network"
    SOURCE = "source"
    INSTANCE = "instance"
    INSTANCE_CREDITS = "instance credits"
    VOLUME = "volume"
    VOLUME_CREDITS = "volume credits"


_CREDITS = {
    LimitedBy.INSTANCE: LimitedBy.INSTANCE_CREDITS,
    LimitedBy.VOLUME: LimitedBy.VOLUME_CREDITS,
}


#: The limits that are a lack of credits.
OUT_OF_CREDITS = tuple(_CREDITS.values())


@dataclass(frozen=True)
class Ceiling:
    """A rate that is never exceeded, and its owner."""

    owner: LimitedBy
    bytes_per_s: float


@dataclass(frozen=True)
class Bucket:
    """Burst credits of a volume or an instance, in bytes or I/Os.

    `baseline_per_s`, `burst_per_s` and `capacity` are in credits; `credits_per_byte` is the cost of
    a byte of the pull. `is_of_ios`: its owner has another bucket, which is of bytes.
    """

    owner: LimitedBy
    baseline_per_s: float
    burst_per_s: float
    capacity: float
    credits_per_byte: float = 1.0
    is_of_ios: bool = False

    def ceiling(self, level: float) -> Ceiling:
        """Return the rate that a level of credits allows, and whether lack of credits limits it."""
        if level > 0:
            return Ceiling(self.owner, self.burst_per_s / self.credits_per_byte)
        return Ceiling(_CREDITS[self.owner], self.baseline_per_s / self.credits_per_byte)


@dataclass(frozen=True)
class DataPath:
    """Everything that a pull passes from its source to the volume.

    Levels are the credits of `buckets`, in their order.
    """

    ceilings: tuple[Ceiling, ...]
    buckets: tuple[Bucket, ...] = ()

    def __add__(self, other: DataPath) -> DataPath:
        return DataPath(self.ceilings + other.ceilings, self.buckets + other.buckets)

    def rate(self, levels: Sequence[float]) -> Ceiling:
        """Return the lowest ceiling; of equal ones the first, with fixed ones before buckets."""
        of_buckets = (bucket.ceiling(level) for bucket, level in zip(self.buckets, levels))
        return min((*self.ceilings, *of_buckets), key=lambda ceiling: ceiling.bytes_per_s)

    def full(self) -> tuple[float, ...]:
        """Return the levels of full buckets."""
        return tuple(bucket.capacity for bucket in self.buckets)

    def levels(
        self,
        share_by_owner: Mapping[LimitedBy, float],
        io_share_by_owner: Mapping[LimitedBy, float] | None = None,
    ) -> tuple[float, ...]:
        """Return levels from shares (0 to 1) of each owner's capacity; 1 where none is given.

        `io_share_by_owner` has the shares of those buckets that are of I/Os, if they differ.
        """
        of_ios = {**share_by_owner, **(io_share_by_owner or {})}
        return tuple(
            bucket.capacity
            * (of_ios if bucket.is_of_ios else share_by_owner).get(bucket.owner, 1.0)
            for bucket in self.buckets
        )

    def with_burst_share(self, owner: LimitedBy, share: float) -> DataPath:
        """Return the path with that share of an owner's burst rates, at least their baseline."""
        buckets = tuple(
            replace(each, burst_per_s=max(each.baseline_per_s, each.burst_per_s * share))
            if each.owner is owner
            else each
            for each in self.buckets
        )
        return replace(self, buckets=buckets)
