"""What memory limits of control groups do to the advice, as containers and ECS tasks have them.

Version 2 with the memory and io controllers (mm/page-writeback.c, `mdtc_calc_avail()` and
`domain_dirty_limits()`, as of Linux 6.18): a group's writers are held to the same percentages of
the memory that its file pages may take, bytes being made a percentage of the host's first, and the
stricter of group and host wins. Version 1 (`writeback_throttling_sane()` in mm/vmscan.c), and
version 2 where the io controller is on version 1: there is no dirty limit of a group. Where the
memory of a version 1 group is full its writers wait in reclaim until its dirty pages are written.
"""

from __future__ import annotations

from collections.abc import Mapping

from contracts.shared.text import printable
from contracts.shared.units import counted, format_size
from sysctl.advice.advise import Recommendation
from sysctl.evidence.comparison import dirtyable_bytes_of
from sysctl.evidence.differences import present_setting
from sysctl.evidence.results import Results
from sysctl.host.memory_group import MemoryGroup
from sysctl.knobs.setting import replace_values
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs.writeback import group_available_bytes, group_thresholds

_IN_BYTES = {DIRTY_PAIR[1], BACKGROUND_PAIR[1]}


def group_lines(
    recommendation: Recommendation, group: MemoryGroup, host_dirty_bytes: int = 0
) -> list[str]:
    """What the group's limit means for pulls in it; empty where the host is the stricter one.

    `host_dirty_bytes` are dirty or under write-back on the host.
    """
    dirtyable_bytes = dirtyable_bytes_of(recommendation.results)
    if group.limit_bytes >= dirtyable_bytes:
        return []
    first = (
        f"This process is in the control group {printable(group.path)} with a memory limit of "
        f"{format_size(group.limit_bytes)}, below the host's {format_size(dirtyable_bytes)} of "
        "dirtyable memory. For pulls in it the group's own limit governs:"
    )
    if group.has_dirty_limit:
        return [first, *_own_limit(recommendation, group, dirtyable_bytes, host_dirty_bytes)]
    return [first, *_no_limit(recommendation, group, dirtyable_bytes)]


def _own_limit(
    recommendation: Recommendation, group: MemoryGroup, dirtyable_bytes: int, dirty_bytes: int
) -> list[str]:
    side = recommendation.best or recommendation.present
    values = replace_values(recommendation.present.setting.values, side.setting.values)
    available_bytes = group.limit_bytes
    if group.use:
        available_bytes = group_available_bytes(group.use, dirtyable_bytes, dirty_bytes)
    own = group_thresholds(values, dirtyable_bytes, available_bytes)
    share = max(own.freerun_bytes, 1) / max(available_bytes, 1)
    peak_bytes = _peak_bytes(recommendation)
    taken_bytes = max(0, group.limit_bytes - available_bytes)
    return [
        f"its writers wait from {format_size(own.freerun_bytes)} of dirty pages on at the "
        f"latest ({share:.0%} of the {format_size(available_bytes)} that its file pages may take), "
        f"not from {format_size(side.thresholds.freerun_bytes)} as on the host.",
        f"What follows: to hold the {format_size(peak_bytes)} that were dirty at most, a group "
        f"needs a limit of {format_size(peak_bytes / share + taken_bytes)} or more; with less, "
        "raise the limit or sweep inside the group. vm.dirty_bytes is made a percentage of the "
        "host's memory, and that percentage is of the group's.",
    ]


def bytes_starve(values: Mapping[str, int], results: Results) -> str:
    """Why `values` in bytes are not for the host that was measured, in a sentence.

    Empty where no group of it has a memory limit, and for ratios.
    """
    groups = results.circumstances.node_class.limited_groups
    if groups is None or not set(values) & _IN_BYTES:
        return ""
    complete = replace_values(present_setting(results).values, values)
    own = group_thresholds(complete, dirtyable_bytes_of(results), groups.smallest_bytes)
    return (
        f"this host has {counted(groups.count, 'control group')} with a memory limit, the smallest "
        f"of {format_size(groups.smallest_bytes)}: the kernel makes bytes a percentage of the "
        "host's memory, so writers in that one wait from at most "
        f"{format_size(own.freerun_bytes)} on; on a host with more memory from less"
    )


def _peak_bytes(recommendation: Recommendation) -> int:
    """The most that was dirty under the recommended settings, or the present ones."""
    return (recommendation.price or recommendation.present_price).at_risk_bytes


def _no_limit(
    recommendation: Recommendation, group: MemoryGroup, dirtyable_bytes: int
) -> list[str]:
    peak_bytes = _peak_bytes(recommendation)
    if group.version == 2:
        return [
            "the io controller is on version 1 of control groups, so the group has no dirty limit "
            "of its own: its writers wait as the host's do, if its memory does not run full before."
        ]
    return [
        "version 1 of control groups has no dirty limit of its own: when the group's "
        f"{format_size(group.limit_bytes)} are full, its writers wait until dirty pages of the "
        "group are written, whatever the vm.dirty_* settings are.",
        f"What follows: to hold the {format_size(peak_bytes)} that were dirty at most, the group "
        f"needs a limit above that and what its programs use; the host's "
        f"{format_size(dirtyable_bytes)} do not help it.",
    ]
