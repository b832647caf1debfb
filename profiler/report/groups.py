# SPDX-License-Identifier: Apache-2.0
"""Explain what memory limits of control groups mean for the advice."""

from __future__ import annotations

from contracts.shared.text import printable
from contracts.shared.units import counted, format_size
from sysctl.advice.group_advice import GroupAdvice, OwnLimit, Starved


def group_lines(advice: GroupAdvice | None) -> list[str]:
    """Return what a group's limit means for pulls in it; no lines if it has no effect."""
    if advice is None:
        return []
    group = advice.group
    first = (
        f"This process is in the control group {printable(group.path)} with a memory limit of "
        f"{format_size(group.limit_bytes)}, below the host's {format_size(advice.dirtyable_bytes)} "
        "of dirtyable memory. For pulls in it the group's own limit applies:"
    )
    return [first, *(_own_limit(advice, advice.own) if advice.own else _no_limit(advice))]


def _own_limit(advice: GroupAdvice, own: OwnLimit) -> list[str]:
    return [
        f"its writers are throttled above {format_size(own.freerun_bytes)} of dirty pages or "
        f"less ({own.share:.0%} of the {format_size(own.available_bytes)} that its file pages "
        f"may take), not above {format_size(advice.freerun_bytes)} as on the host.",
        f"So to hold the {format_size(advice.peak_bytes)} that were dirty at most, a "
        f"group needs a limit of {format_size(own.needed_bytes)} or more; with less, raise the "
        "limit or sweep inside the group. vm.dirty_bytes is made a percentage of the host's "
        "memory, and that percentage is of the group's.",
    ]


def _no_limit(advice: GroupAdvice) -> list[str]:
    if advice.group.version == 2:
        return [
            "the io controller is on version 1 of control groups, so the group has no dirty limit "
            "of its own: its writers wait as the host's do, if its memory does not run full before."
        ]
    return [
        "version 1 of control groups has no dirty limit of its own: when the group's "
        f"{format_size(advice.group.limit_bytes)} are full, its writers wait until dirty pages of "
        "the group are written, whatever the vm.dirty_* settings are.",
        f"So to hold the {format_size(advice.peak_bytes)} that were dirty at most, the "
        "group needs a limit above that and what its programs use; the host's "
        f"{format_size(advice.dirtyable_bytes)} do not help it.",
    ]


def starved_text(starved: Starved) -> str:
    """Return in a sentence why thresholds in bytes do not suit the measured host."""
    groups = starved.groups
    return (
        f"this host has {counted(groups.count, 'control group')} with a memory limit, the smallest "
        f"of {format_size(groups.smallest_bytes)}: the kernel makes bytes a percentage of the "
        "host's memory, so writers in that one wait from at most "
        f"{format_size(starved.freerun_bytes)} on; on a host with more memory from less"
    )
