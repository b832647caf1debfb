# SPDX-License-Identifier: Apache-2.0
"""The writes that a contract counts, from the widest of its slots, so that none counts twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contracts.model import CallType, SizeRange, Slot
from contracts.stats import CallStats, merge
from sysctl.host.mount_table import is_below


@dataclass(frozen=True)
class WriteCalls:
    """The `stats` of calls of `call_types`.

    These are writes, together with other types if the contract has no rule for writes alone. Both
    are empty without a rule for writes.
    """

    stats: CallStats = field(default_factory=CallStats)
    call_types: tuple[CallType, ...] = ()


def widest_writes(stats: Mapping[Slot, CallStats]) -> WriteCalls:
    """Return the writes of the slots with the most time that have no calls in common.

    Slots for writes alone come first, if they have calls. Of overlapping slots the one with more
    time stands for both. Paths are compared by name, so a path through a symlink counts as another.
    """

    def rank(slot: Slot) -> tuple[bool, int]:
        is_alone = slot.call_types == (CallType.WRITE,)
        return (is_alone and stats[slot].count > 0, stats[slot].latency_total_ns)

    slots = [slot for slot in stats if CallType.WRITE in slot.call_types]
    taken: list[Slot] = []
    for slot in sorted(slots, key=rank, reverse=True):
        if not any(_overlap(slot, other) for other in taken):
            taken.append(slot)
    call_types = {call_type for slot in taken for call_type in slot.call_types}
    return WriteCalls(
        merge([stats[slot] for slot in taken]),
        tuple(call_type for call_type in CallType if call_type in call_types),
    )


def fsyncs_of(stats: Mapping[Slot, CallStats]) -> CallStats | None:
    """The slot of fsync calls alone with most time in them; None where no rule counts these."""
    found = [calls for slot, calls in stats.items() if slot.call_types == (CallType.FSYNC,)]
    return max(found, key=lambda calls: calls.latency_total_ns, default=None)


def _overlap(one: Slot, other: Slot) -> bool:
    nested = is_below(one.path, other.path) or is_below(other.path, one.path)
    return nested and _sizes_overlap(one.size_range, other.size_range)


def _sizes_overlap(one: SizeRange, other: SizeRange) -> bool:
    return _reaches(one, other.min_bytes) and _reaches(other, one.min_bytes)


def _reaches(sizes: SizeRange, size_bytes: int) -> bool:
    return sizes.max_bytes is None or sizes.max_bytes >= size_bytes
