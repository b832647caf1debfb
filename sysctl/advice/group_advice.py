# SPDX-License-Identifier: Apache-2.0
"""Advice for control groups with memory limits, such as containers and ECS tasks.

Version 2 with the memory and io controllers (mm/page-writeback.c, `mdtc_calc_avail()` and
`domain_dirty_limits()`, as of Linux 6.18): the same percentages apply to the memory that the
group's file pages may take (bytes are first converted to a percentage of the host's memory), and
the stricter of group and host wins. Version 1 (`writeback_throttling_sane()` in mm/vmscan.c), and
version 2 with the io controller on version 1: a group has no dirty limit. When the memory of a
version 1 group is full, its writers wait in reclaim until its dirty pages are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.advice.advise import Recommendation
from sysctl.evidence.circumstances import GroupLimits
from sysctl.evidence.runs import Runs
from sysctl.host.memory_group import MemoryGroup
from sysctl.knobs.setting import replace_values
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs.writeback import group_available_bytes, group_thresholds

_IN_BYTES = {DIRTY_PAIR[1], BACKGROUND_PAIR[1]}


@dataclass(frozen=True)
class OwnLimit:
    """A group's own dirty limit: its writers wait from `freerun_bytes` on, at the latest.

    That is `share` of the `available_bytes` that its file pages may take. To hold the peak of the
    pull, it needs a memory limit of `needed_bytes`.
    """

    freerun_bytes: int
    available_bytes: int
    share: float
    needed_bytes: float


@dataclass(frozen=True)
class GroupAdvice:
    """The effect of a group's memory limit on its pulls.

    `dirtyable_bytes` are the host's; on the host writers wait from `freerun_bytes` on. `peak_bytes`
    is the peak of dirty bytes. `own` is None if the group has no dirty limit of its own.
    """

    group: MemoryGroup
    dirtyable_bytes: int
    freerun_bytes: int
    peak_bytes: int
    own: OwnLimit | None


@dataclass(frozen=True)
class Starved:
    """Thresholds in bytes make writers of the smallest group wait from `freerun_bytes` on."""

    groups: GroupLimits
    freerun_bytes: int


def group_advice(
    recommendation: Recommendation, group: MemoryGroup, host_dirty_bytes: int = 0
) -> GroupAdvice | None:
    """Return the effect of the group's limit on its pulls; None if the host is stricter.

    `host_dirty_bytes` are dirty or under write-back on the host.
    """
    dirtyable_bytes = recommendation.analysis.runs.dirtyable_bytes
    if group.limit_bytes >= dirtyable_bytes:
        return None
    return GroupAdvice(
        group=group,
        dirtyable_bytes=dirtyable_bytes,
        freerun_bytes=(recommendation.best or recommendation.present).thresholds.freerun_bytes,
        peak_bytes=_peak_bytes(recommendation),
        own=_own(recommendation, group, host_dirty_bytes) if group.has_dirty_limit else None,
    )


def _own(recommendation: Recommendation, group: MemoryGroup, dirty_bytes: int) -> OwnLimit:
    runs, side = recommendation.analysis.runs, recommendation.best or recommendation.present
    available_bytes = group.limit_bytes
    if group.use:
        available_bytes = group_available_bytes(group.use, runs.dirtyable_bytes, dirty_bytes)
    values = runs.baseline.values_with(side.setting)
    own = group_thresholds(values, runs.dirtyable_bytes, available_bytes)
    share = max(own.freerun_bytes, 1) / max(available_bytes, 1)
    taken_bytes = max(0, group.limit_bytes - available_bytes)
    return OwnLimit(
        freerun_bytes=own.freerun_bytes,
        available_bytes=available_bytes,
        share=share,
        needed_bytes=_peak_bytes(recommendation) / share + taken_bytes,
    )


def _peak_bytes(recommendation: Recommendation) -> int:
    """Return the peak of dirty bytes under the recommended settings, else the current ones."""
    return (recommendation.price or recommendation.present_price).at_risk_bytes


def starved_by(values: Mapping[str, int], runs: Runs) -> Starved | None:
    """Return how `values` in bytes starve groups of the measured host.

    None if no group has a memory limit, and for ratios.
    """
    groups = runs.circumstances.node_class.limited_groups
    if groups is None or not set(values) & _IN_BYTES:
        return None
    complete = replace_values(runs.baseline.setting.values, values)
    own = group_thresholds(complete, runs.dirtyable_bytes, groups.smallest_bytes)
    return Starved(groups, own.freerun_bytes)
