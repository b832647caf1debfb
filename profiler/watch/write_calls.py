"""The writes that a contract counts, as one: the widest of its slots, no call twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contracts.model import CallType, SizeRange, Slot
from contracts.stats import CallStats, merge
from sysctl.host.mount_table import is_below


@dataclass(frozen=True)
class WriteCalls:
    """`stats` of calls of `call_types`: writes alone, or joined with others where the contract
    has no rule of writes alone. Without a rule of writes there are neither.
    """

    stats: CallStats = field(default_factory=CallStats)
    call_types: tuple[CallType, ...] = ()


def widest_writes(stats: Mapping[Slot, CallStats]) -> WriteCalls:
    """The slots of writes with most time in them that share no call with one taken before.

    Those of writes alone go first, if they have any call. Of slots that overlap in part the one
    with more time stands for both. Paths are compared by name: a rule's path through a symlink
    counts as another place.
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


def _overlap(one: Slot, other: Slot) -> bool:
    nested = is_below(one.path, other.path) or is_below(other.path, one.path)
    return nested and _sizes_overlap(one.size_range, other.size_range)


def _sizes_overlap(one: SizeRange, other: SizeRange) -> bool:
    return _reaches(one, other.min_bytes) and _reaches(other, one.min_bytes)


def _reaches(sizes: SizeRange, size_bytes: int) -> bool:
    return sizes.max_bytes is None or sizes.max_bytes >= size_bytes
