# SPDX-License-Identifier: Apache-2.0
"""Plans for the tests: the case study's pull on a volume and an instance."""

from __future__ import annotations

from sysctl.volume import instances
from sysctl.volume.limits import MIB, Ceiling, LimitedBy
from sysctl.volume.planning import Plan, Pull, PullNode
from sysctl.volume.prices import us_east_1
from sysctl.volume.volume_types import EbsVolume, check

#: The case study's pull.
N = 22_500 * MIB
IDLE_S = 45 * 60.0
EMPTY_VOLUME, EMPTY_INSTANCE = {LimitedBy.VOLUME: 0.0}, {LimitedBy.INSTANCE: 0.0}


def volume(type_name, size_gib=None, iops=None, mib_per_s=None):
    return check(EbsVolume(type_name, size_gib, iops, mib_per_s)).volume


def plan(of_volume, size_bytes=N, io_bytes=None, idle_s=None, **node):
    return Plan(Pull(size_bytes, io_bytes, idle_s), PullNode(**node), of_volume, us_east_1())


def instance(name, *, is_bursting=True):
    """Return the arguments of `plan` for an instance and its network."""
    found = instances.table().find(name)
    network = found.network_bytes_per_s(is_bursting=is_bursting)
    return {"instance": found, "source": Ceiling(LimitedBy.NETWORK, network)}


def volume_of(planned):
    """Return the volume of a plan that `--cheapest` found."""
    assert isinstance(planned.volume, EbsVolume)
    return planned.volume
