# SPDX-License-Identifier: Apache-2.0
"""What EBS volume the lab emulates: its limits are those of `sysctl/volume`, its bucket is smaller.

The rates are those of AWS. The capacity of each bucket is divided by the time scale, so credits
run out that many times sooner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from contracts.shared.errors import UsageError
from sysctl.volume import instances, volume_types
from sysctl.volume.limits import Bucket, DataPath, LimitedBy
from sysctl.volume.volume_types import EbsVolume

#: A bucket that lasts for less than this at its burst rate is too small to be followed.
LEAST_BURST_S = 1.0


@dataclass(frozen=True)
class Emulated:
    """A volume that was checked, and the instance type if its limits count too.

    `credits` and `instance_credits` are the fill levels (0 to 1) of the buckets at the start.
    """

    volume: EbsVolume
    instance_type: str | None = None
    time_scale: float = 1.0
    credits: float = 1.0
    instance_credits: float = 1.0

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot be emulated."""
        if not (math.isfinite(self.time_scale) and self.time_scale >= 1):
            raise UsageError(
                f"--time-scale must be at least 1, not {self.time_scale:g}",
                "use --time-scale 1 for the bucket of AWS, 60 for one that is 60 times smaller",
            )
        largest = min((_burst_s(bucket) for bucket in self._unscaled().buckets), default=math.inf)
        if self.time_scale * LEAST_BURST_S > largest:
            raise UsageError(
                f"--time-scale {self.time_scale:g} leaves credits for less than "
                f"{LEAST_BURST_S:g} s of burst",
                f"use --time-scale {math.floor(largest / LEAST_BURST_S)} or less",
            )

    def path(self) -> DataPath:
        """Return the limits, the instance's first, with smaller buckets. I/O is sequential."""
        path = self._unscaled()
        smaller = tuple(
            replace(each, capacity=each.capacity / self.time_scale) for each in path.buckets
        )
        return replace(path, buckets=smaller)

    def levels(self) -> tuple[float, ...]:
        """Return the credits at the start."""
        shares = {LimitedBy.VOLUME: self.credits, LimitedBy.INSTANCE: self.instance_credits}
        return self.path().levels(shares)

    def _unscaled(self) -> DataPath:
        instance = instances.table().find(self.instance_type) if self.instance_type else None
        before = instances.path(instance) if instance else DataPath(())
        return before + volume_types.path(self.volume)


def _burst_s(bucket: Bucket) -> float:
    return bucket.capacity / (bucket.burst_per_s - bucket.baseline_per_s)


def from_record(data: Mapping[str, Any] | None) -> Emulated | None:
    """Return what `dataclasses.asdict` has stored. Raises TypeError, KeyError and UsageError."""
    return Emulated(**{**data, "volume": EbsVolume(**data["volume"])}) if data else None
