"""What other programs notice of a pull, seen in a run of its own (role `price`).

A run with a neighbour is no run of the comparison: the neighbour's fsyncs change what they measure.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The mode in which a commit of ext4's journal waits for the data of the files that grew.
ORDERED = "ordered"


@dataclass(frozen=True)
class Latency:
    """The times of one kind of call, in s: the median and the longest of `count`, at least 1."""

    median_s: float
    worst_s: float
    count: int


@dataclass(frozen=True)
class PriceSeen:
    """What was seen from the start of a pull until all of it was durable, `observed_s` later.

    `fsync` is of a neighbour on the same volume that each second writes 4 KiB and waits for fsync,
    `read` of its reads of 4 KiB past the page cache; None where none was timed, and `problem` says
    why (`profiler/price/neighbour.py`). The rest is of the host (`profiler/price/memory.py`), None
    where the kernel keeps no such figure: bytes that were swapped out; bytes that were read back
    after their reclaim; how often an allocation had to reclaim memory itself; the share of the time
    (0 to 1) in which some task waited for memory. `ext4_data_mode` is `ordered`, `writeback` or
    `journal`, empty on another file system.
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
        """Memory that programs lost, as far as is known: swapped out, or read back; None if not."""
        known = [n for n in (self.swapped_out_bytes, self.refaulted_bytes) if n is not None]
        return sum(known) if known else None
