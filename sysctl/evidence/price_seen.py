# SPDX-License-Identifier: Apache-2.0
"""What other programs notice of a pull, measured in a separate run (role `price`).

A run with a neighbour is not part of a comparison: the neighbour's fsyncs affect the pull.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The mode in which a commit of ext4's journal waits for the data of files that grew.
ORDERED = "ordered"


@dataclass(frozen=True)
class Latency:
    """The times of one type of call, in s: median and maximum of `count` (at least 1) calls."""

    median_s: float
    worst_s: float
    count: int


@dataclass(frozen=True)
class PriceSeen:
    """What was measured from the start of a pull until it was durable, `observed_s` later.

    `fsync` is from a neighbour on the same volume that writes 4 KiB each second and calls fsync,
    `read` from its reads of 4 KiB that bypass the page cache; None if none was timed, with the
    reason in `problem` (`profiler/price/neighbour.py`). The rest is from the host
    (`profiler/price/memory.py`), None if the kernel does not report it: bytes swapped out; bytes
    read back after reclaim; the number of allocations that had to reclaim memory themselves; the
    share of the time (0 to 1) in which some task waited for memory. `ext4_data_mode` is `ordered`,
    `writeback` or `journal`, and "" on other file systems.
    """

    observed_s: float
    fsync: Latency | None = None
    read: Latency | None = None
    swapped_out_bytes: int | None = None
    refaulted_bytes: int | None = None
    direct_reclaim_stalls: int | None = None
    memory_pressure_share: float | None = None
    ext4_data_mode: str = ""
    problem: str = ""

    @property
    def lost_bytes(self) -> int | None:
        """Memory that programs lost: swapped out or read back after reclaim; None if unknown."""
        known = [n for n in (self.swapped_out_bytes, self.refaulted_bytes) if n is not None]
        return sum(known) if known else None
