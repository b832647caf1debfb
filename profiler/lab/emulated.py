# SPDX-License-Identifier: Apache-2.0
"""What EBS volume the lab emulates: its limits are those of `sysctl/volume`, its bucket is smaller.

The rates are those of AWS. The capacity of each bucket is divided by the time scale, so credits
run out that many times sooner.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contracts.shared.errors import UsageError
from profiler.lab.cap import CapLimits
from sysctl.volume import instances, volume_types
from sysctl.volume.limits import Bucket, DataPath, LimitedBy
from sysctl.volume.volume_types import EbsVolume

#: A bucket that lasts for less than this at its burst rate is too small to be followed.
LEAST_BURST_S = 1.0
#: With I/Os this small, the limit of IOPS is what limits an SSD volume and an instance.
_SMALL_IO_BYTES = 512


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

    def __str__(self) -> str:
        size = f" of {self.volume.size_gib:,} GiB" if self.volume.size_gib else ""
        on = f" on {self.instance_type}" if self.instance_type else ""
        scale = f", the buckets {self.time_scale:g} times smaller" if self.time_scale > 1 else ""
        return f"{self.volume.type}{size}{on}{scale}"

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

    def limits(self, levels: Sequence[float]) -> CapLimits:
        """Return what a cap can set at these credits. HDD volumes have no limit of IOPS."""
        of_ios = _path(self.instance_type, self.volume, _SMALL_IO_BYTES)
        if volume_types.is_hdd(self.volume):  # the instance's are the first
            of_ios = _path(self.instance_type, None, _SMALL_IO_BYTES)
        has_iops = of_ios.ceilings or of_ios.buckets
        iops = of_ios.rate(levels).bytes_per_s / _SMALL_IO_BYTES if has_iops else None
        return CapLimits(
            rate_bytes_per_s=round(self.path().rate(levels).bytes_per_s),
            iops=None if iops is None else round(iops),
        )

    def limits_when(self) -> dict[tuple[bool, ...], CapLimits]:
        """Return the limits by which buckets are empty."""
        full_or_empty = ((bucket.capacity, 0.0) for bucket in self.path().buckets)
        return {
            tuple(level <= 0 for level in levels): self.limits(levels)
            for levels in itertools.product(*full_or_empty)
        }

    def all_limits(self) -> tuple[CapLimits, ...]:
        """Return each of the limits that full and empty buckets lead to, the present ones first."""
        present = self.limits(self.levels())
        return tuple(dict.fromkeys([present, *self.limits_when().values()]))

    def _unscaled(self) -> DataPath:
        return _path(self.instance_type, self.volume)


def _path(
    instance_type: str | None, volume: EbsVolume | None, io_bytes: int | None = None
) -> DataPath:
    instance = instances.table().find(instance_type) if instance_type else None
    before = instances.path(instance, io_bytes) if instance else DataPath(())
    return before + (volume_types.path(volume, io_bytes) if volume else DataPath(()))


def _burst_s(bucket: Bucket) -> float:
    return bucket.capacity / (bucket.burst_per_s - bucket.baseline_per_s)


def from_record(data: Mapping[str, Any] | None) -> Emulated | None:
    """Return what `dataclasses.asdict` has stored. Raises TypeError, KeyError and UsageError."""
    return Emulated(**{**data, "volume": EbsVolume(**data["volume"])}) if data else None
