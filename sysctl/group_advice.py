"""What the memory limit of a control group does to the advice, as a container or an ECS task has.

Version 2 (mm/page-writeback.c, `mdtc_calc_avail()` and `domain_dirty_limits()`, as of Linux 6.18):
a group's writers are held to the same percentages of what the group may use, bytes being made a
percentage of the host's first, and the stricter of group and host wins. Version 1
(`writeback_throttling_sane()` in mm/vmscan.c): there is no dirty limit of a group; where its memory
is full its writers wait in reclaim until its dirty pages are written.
"""

from __future__ import annotations

from contracts.text import printable
from contracts.units import format_size
from sysctl.advise import Recommendation
from sysctl.evidence import dirtyable_bytes_of
from sysctl.host.memory_group import MemoryGroup
from sysctl.writeback import group_thresholds


def group_lines(recommendation: Recommendation, group: MemoryGroup) -> list[str]:
    """What the group's limit means for pulls in it; empty where the host is the stricter one."""
    dirtyable_bytes = dirtyable_bytes_of(recommendation.results)
    if group.limit_bytes >= dirtyable_bytes:
        return []
    first = (
        f"This process is in the control group {printable(group.path)} with a memory limit of "
        f"{format_size(group.limit_bytes)}, below the host's {format_size(dirtyable_bytes)} of "
        "dirtyable memory. For pulls in it the group's own limit governs:"
    )
    says = _version_1 if group.version == 1 else _version_2
    return [first, *says(recommendation, group, dirtyable_bytes)]


def _version_2(
    recommendation: Recommendation, group: MemoryGroup, dirtyable_bytes: int
) -> list[str]:
    side = recommendation.best or recommendation.present
    own = group_thresholds(side.thresholds, dirtyable_bytes, group.limit_bytes)
    share = own.freerun_bytes / group.limit_bytes
    peak_bytes = _peak_bytes(recommendation)
    return [
        f"its writers wait from {format_size(own.freerun_bytes)} of dirty pages on at the "
        f"latest ({share:.0%} of the group's memory), not from "
        f"{format_size(side.thresholds.freerun_bytes)} as on the host.",
        f"What follows: to hold the {format_size(peak_bytes)} that were dirty at most, a group "
        f"needs a limit of {format_size(peak_bytes / share)} or more; with less, raise the limit "
        "or sweep inside the group. vm.dirty_bytes is a percentage of the group's memory, too.",
    ]


def _peak_bytes(recommendation: Recommendation) -> int:
    """The most that was dirty under the recommended settings, or the present ones."""
    return (recommendation.price or recommendation.present_price).at_risk_bytes


def _version_1(
    recommendation: Recommendation, group: MemoryGroup, dirtyable_bytes: int
) -> list[str]:
    peak_bytes = _peak_bytes(recommendation)
    return [
        "version 1 of control groups has no dirty limit of its own: when the group's "
        f"{format_size(group.limit_bytes)} are full, its writers wait until dirty pages of the "
        "group are written, whatever the vm.dirty_* settings are.",
        f"What follows: to hold the {format_size(peak_bytes)} that were dirty at most, the group "
        f"needs a limit above that and what its programs use; the host's "
        f"{format_size(dirtyable_bytes)} do not help it.",
    ]
