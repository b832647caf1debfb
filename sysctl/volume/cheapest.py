# SPDX-License-Identifier: Apache-2.0
"""The cheapest volumes on which a pull meets a deadline, over all types and sizes.

Within a type the price rises with size, throughput and IOPS, and none of these makes a pull slower.
So bisection finds the cheapest volume of a type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sysctl.volume import volume_types
from sysctl.volume.limits import MIB
from sysctl.volume.planning import Plan, Pull, PullNode, before_volume
from sysctl.volume.prices import Prices
from sysctl.volume.timeline import Course, pull
from sysctl.volume.volume_types import SSD_IO_BYTES, EbsVolume, ios_per_byte

#: Tolerance for the rounding of a time that meets the deadline exactly.
_ON_TIME = 1 + 1e-9


@dataclass(frozen=True)
class VolumeSearch:
    """Requirements: hold `capacity_gib`, and be durable after `deadline_s` if given.

    The deadline is for every pull: the first, and the steady ones if pulls are repeated.
    """

    pull: Pull
    node: PullNode
    prices: Prices
    capacity_gib: int
    deadline_s: float | None = None
    with_hdd_margin: bool = False


@dataclass(frozen=True)
class CheapestVolumes:
    """The plans that meet the requirements, cheapest first, without those that a cheaper one beats.

    `too_slow` has the types that cannot meet the deadline, `too_small` those that cannot hold the
    capacity, `unpriced` those without a price.
    """

    plans: tuple[Plan, ...]
    too_slow: tuple[str, ...]
    too_small: tuple[str, ...]
    unpriced: tuple[str, ...]


def cheapest(wanted: VolumeSearch) -> CheapestVolumes:
    """Return the cheapest volume of each type, without those that a cheaper one beats."""
    plans, too_slow, too_small, unpriced = [], [], [], []
    for name in volume_types.names():
        if wanted.capacity_gib > volume_types.size_range_gib(name)[1]:
            too_small.append(name)
            continue
        plan = of_type(wanted, name)
        if plan is None:
            too_slow.append(name)
        elif plan.monthly_usd is None:
            unpriced.append(name)
        else:
            plans.append(plan)
    return CheapestVolumes(_not_beaten(plans), tuple(too_slow), tuple(too_small), tuple(unpriced))


def without_volume(wanted: VolumeSearch) -> Course | None:
    """Return the pull's path without the volume; None if nothing of it is known."""
    path = before_volume(wanted.pull, wanted.node)
    if not path.ceilings and not path.buckets:
        return None
    return pull(path, wanted.pull.size_bytes, wanted.node.levels(path))


def of_type(wanted: VolumeSearch, name: str) -> Plan | None:
    """Return the plan of a type's cheapest volume; None if none meets the deadline."""
    entry = volume_types.table()["types"][name]
    least_gib, most_gib = volume_types.size_range_gib(name)
    least_gib = max(least_gib, wanted.capacity_gib)
    if entry["model"] != "provisioned":
        return _least(wanted, lambda size: EbsVolume(name, size), least_gib, most_gib)
    least, most = entry["iops"]
    if "mib_per_s" not in entry:
        return _least(wanted, lambda iops: _sized(EbsVolume(name, least_gib, iops)), least, most)
    return _least(wanted, lambda rate: _gp3(wanted, least_gib, rate), 1, entry["mib_per_s"][1])


def _gp3(wanted: VolumeSearch, least_gib: int, mib_per_s: int) -> EbsVolume:
    """Return the cheapest gp3 volume with that write rate at the pull's I/O size."""
    entry = volume_types.table()["types"]["gp3"]
    throughput = max(mib_per_s, entry["mib_per_s"][0])
    for_rate = mib_per_s * MIB * ios_per_byte(SSD_IO_BYTES, wanted.pull.io_bytes)
    for_throughput = throughput / entry["mib_per_s_per_iops"]
    iops = max(entry["default_iops"], -int(-max(for_rate, for_throughput) // 1))
    iops = min(iops, volume_types.maximum_iops("gp3"))
    return _sized(EbsVolume("gp3", least_gib, iops, float(throughput)))


def _sized(volume: EbsVolume) -> EbsVolume:
    """Return the volume, made larger if its IOPS require it."""
    least_gib = volume_types.least_size_gib(volume.type, volume.iops or 0)
    return replace(volume, size_gib=max(volume.size_gib or 0, least_gib))


def _least(
    wanted: VolumeSearch, make: Callable[[int], EbsVolume], low: int, high: int
) -> Plan | None:
    """Return the plan of the first volume from `low` to `high` that meets the deadline."""

    def plan_of(figure: int) -> Plan:
        return Plan(wanted.pull, wanted.node, make(figure), wanted.prices)

    if not _is_in_time(wanted, plan_of(high)):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_in_time(wanted, plan_of(middle)) else (middle + 1, high)
    return plan_of(high)


def _is_in_time(wanted: VolumeSearch, plan: Plan) -> bool:
    if wanted.deadline_s is None:
        return True
    course = plan.with_margin if wanted.with_hdd_margin else None
    slowest_s = max(plan.slowest_s, course.durable_s if course else 0.0)
    return slowest_s <= wanted.deadline_s * _ON_TIME


def _not_beaten(plans: list[Plan]) -> tuple[Plan, ...]:
    """Return the plans that are faster than all cheaper ones."""
    kept: list[Plan] = []
    for plan in sorted(plans, key=lambda plan: (round(plan.monthly_usd or 0.0, 6), plan.slowest_s)):
        if not kept or plan.slowest_s < kept[-1].slowest_s * (1 - 1e-9):
            kept.append(plan)
    return tuple(kept)
