# SPDX-License-Identifier: Apache-2.0
"""A plan: a pull's time on a volume, once and repeated, and whether write-back matters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from sysctl.volume import instances, repeated, volume_types
from sysctl.volume.instances import Instance
from sysctl.volume.limits import Ceiling, DataPath, LimitedBy
from sysctl.volume.prices import Prices
from sysctl.volume.repeated import Repeated
from sysctl.volume.timeline import Course, pull
from sysctl.volume.volume_types import HDD_MARGIN, EbsVolume
from sysctl.volume.write_back import Memory, WriteBack, judge


@dataclass(frozen=True)
class Pull:
    """The data to write, and how often.

    `io_bytes` is the size of random I/Os, None for sequential ones. `idle_s` is the time from the
    end of one pull to the start of the next, None for a single pull.
    """

    size_bytes: int
    io_bytes: int | None = None
    idle_s: float | None = None


@dataclass(frozen=True)
class PullNode:
    """The limits before the volume. None: unknown, and so assumed to be fast enough.

    `source` is the rate of the network, or the measured rate of the source. `credits` are the fill
    levels (0 to 1) of the buckets at the start, by owner; `io_credits` are those of buckets of I/Os
    if they differ.
    """

    source: Ceiling | None = None
    instance: Instance | None = None
    memory: Memory | None = None
    credits: Mapping[LimitedBy, float] = field(default_factory=dict)
    io_credits: Mapping[LimitedBy, float] = field(default_factory=dict)

    def levels(self, path: DataPath) -> tuple[float, ...]:
        """Return the credits of a path's buckets at the start."""
        return path.levels(self.credits, self.io_credits)

    def without(self, owner: LimitedBy) -> PullNode:
        """Return the node with that owner's buckets empty."""
        empty = {owner: 0.0}
        return replace(
            self, credits={**self.credits, **empty}, io_credits={**self.io_credits, **empty}
        )


@dataclass(frozen=True)
class MeasuredDevice:
    """A device of which only the rate is known, from runs."""

    bytes_per_s: float


def before_volume(pull: Pull, node: PullNode) -> DataPath:
    """Return a pull's limits before the volume: the source's, then the instance's."""
    source = DataPath((node.source,) if node.source else ())
    return source + (
        instances.path(node.instance, pull.io_bytes) if node.instance else DataPath(())
    )


@dataclass(frozen=True)
class Plan:
    """A pull on one volume; `volume` has been checked. The results are computed once."""

    pull: Pull
    node: PullNode
    volume: EbsVolume | MeasuredDevice
    prices: Prices

    @cached_property
    def path(self) -> DataPath:
        """All limits, the source's first."""
        before = before_volume(self.pull, self.node)
        if isinstance(self.volume, MeasuredDevice):
            return before + DataPath((Ceiling(LimitedBy.VOLUME, self.volume.bytes_per_s),))
        return before + volume_types.path(self.volume, self.pull.io_bytes)

    @cached_property
    def levels(self) -> tuple[float, ...]:
        """The credits at the start."""
        return self.node.levels(self.path)

    @cached_property
    def course(self) -> Course:
        """The first pull."""
        return pull(self.path, self.pull.size_bytes, self.levels)

    @cached_property
    def repeated(self) -> Repeated | None:
        """The pulls after the first; None for a single pull."""
        if self.pull.idle_s is None:
            return None
        return repeated.repeat(self.path, self.pull.size_bytes, self.levels, self.pull.idle_s)

    @cached_property
    def slowest_s(self) -> float:
        """The durable time of the slowest pull: the first or the steady one."""
        steady_s = self.repeated.steady.durable_s if self.repeated else 0.0
        return max(self.course.durable_s, steady_s)

    def without_credits(self, owner: LimitedBy) -> Course | None:
        """Return the same pull with that owner's buckets empty; None if it has none."""
        if not any(bucket.owner is owner for bucket in self.path.buckets):
            return None
        return pull(self.path, self.pull.size_bytes, self.node.without(owner).levels(self.path))

    @cached_property
    def with_margin(self) -> Course | None:
        """The first pull at 90 % of an HDD volume's burst rate, which it sustains; else None."""
        if isinstance(self.volume, MeasuredDevice) or not volume_types.is_hdd(self.volume):
            return None
        path = self.path.with_burst_share(LimitedBy.VOLUME, HDD_MARGIN)
        return pull(path, self.pull.size_bytes, self.levels)

    @cached_property
    def write_back(self) -> WriteBack | None:
        """Write-back's effect on the first pull; None if the source or the memory is unknown."""
        source, memory = self.node.source, self.node.memory
        if source is None or memory is None:
            return None
        return judge(self.pull.size_bytes, memory, source.bytes_per_s, self.course.phases)

    @property
    def return_s(self) -> float | None:
        """The time to return of the first pull; None if it is unknown."""
        return None if self.write_back is None else self.write_back.current.return_s

    def balance(self, owner: LimitedBy, levels: tuple[float, ...]) -> float | None:
        """Return the share (0 to 1) of an owner's emptiest bucket; None if it has none."""
        shares = [
            level / bucket.capacity
            for bucket, level in zip(self.path.buckets, levels)
            if bucket.owner is owner
        ]
        return min(shares) if shares else None

    @cached_property
    def pulls_per_day(self) -> float:
        """How many pulls a day can be fast forever."""
        return repeated.pulls_per_day(self.path, self.pull.size_bytes)

    @cached_property
    def guaranteed_pulls_per_day(self) -> int | None:
        """How many fast pulls in 24 hours the instance's credits are guaranteed to allow."""
        return repeated.guaranteed_pulls_per_day(self.path, self.pull.size_bytes)

    @property
    def monthly_usd(self) -> float | None:
        """The volume's price; None if it is unknown."""
        return (
            None
            if isinstance(self.volume, MeasuredDevice)
            else self.prices.monthly_usd(self.volume)
        )
