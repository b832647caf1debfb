# SPDX-License-Identifier: Apache-2.0
"""What the memory limit of an admitted writer's control group means for a burst and for a raise.

A version 2 group has dirty limits of its own: the thresholds' share of the memory that its limit
leaves (`mdtc_calc_avail()` in mm/page-writeback.c, Linux 6.18). A version 1 group has none, and its
writers wait when its memory is full of dirty pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.knobs.writeback import GroupUse, group_available_bytes, group_thresholds


@dataclass(frozen=True)
class LimitedMemory:
    """A group's limit and use, in bytes, or those of a group above it.

    `file_bytes` are file pages on the LRU lists, `unwritten_bytes` those of them that are dirty or
    under write-back.
    """

    limit_bytes: int
    used_bytes: int
    file_bytes: int
    unwritten_bytes: int

    @property
    def room_bytes(self) -> int:
        """What may still be used: what the limit leaves, and clean file pages."""
        clean = max(0, self.file_bytes - self.unwritten_bytes)
        return max(0, self.limit_bytes - self.used_bytes) + clean


@dataclass(frozen=True)
class GroupMemory:
    """The memory of an admitted control group at one moment.

    `identity` changes if the group is deleted and made again. `levels` are the group and those
    above it that have a limit. `use` is for the group's dirty limits, None if it has none. The
    totals of memory pressure are None if the kernel keeps none for groups.
    """

    path: str
    identity: int
    levels: tuple[LimitedMemory, ...]
    unwritten_bytes: int
    use: GroupUse | None = None
    some_ns: int | None = None
    full_ns: int | None = None

    def is_short(self, least_share: float) -> bool:
        """Return whether less than that share of a limit can still be used."""
        return any(level.room_bytes < least_share * level.limit_bytes for level in self.levels)

    def room_bytes(
        self, values: Mapping[str, int], host_available_bytes: int, host_held_bytes: int
    ) -> float | None:
        """Return how much more may be dirty until the group's own limit makes its writers wait.

        `values` are the threshold sysctls. None: the group has no limit.
        """
        if not self.levels:
            return None
        room = min(level.room_bytes for level in self.levels)
        if self.use is None:
            return room
        available = group_available_bytes(self.use, host_available_bytes, host_held_bytes)
        at = group_thresholds(values, host_available_bytes, available)
        return min(room, at.freerun_bytes - self.use.dirty_bytes)
