# SPDX-License-Identifier: Apache-2.0
"""Counts and times the requests of disks: what a device wrote and read, and how long it took.

The layouts are those of `block.bpf.c`. A request is timed from when the driver receives it (for the
last time, if it was returned) to its completion; this excludes the I/O scheduler's queue. The
figures are for the whole host: a device does not know which process dirtied what it writes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts.stats import BUCKET_COUNT, CallStats, bucket_bounds_ns
from profiler.bpf.probe import Probe

if TYPE_CHECKING:
    from profiler.bpf.loader import Module

#: Programs whose skipped runs lose no call: a completion may interrupt the counting of another.
HARMLESS = ("raw_tracepoint__block_rq_issue", "raw_tracepoint__block_rq_complete")
PROBE = Probe(
    name="block",
    sources=("histogram.bpf.h", "block.bpf.c"),
    raw_tracepoints=("block_rq_issue", "block_rq_complete"),
    members={
        "OFFSET_REQUEST_QUEUE": ("request", "q"),
        "OFFSET_REQUEST_FLAGS": ("request", "cmd_flags"),
        "OFFSET_REQUEST_BYTES": ("request", "__data_len"),
        "OFFSET_QUEUE_DISK": ("request_queue", "disk"),  # since Linux 5.15
        "OFFSET_DISK_MAJOR": ("gendisk", "major"),
        "OFFSET_DISK_MINOR": ("gendisk", "first_minor"),
    },
)

_DIRECTIONS = 2
#: `struct request_stats`: seven figures, then the histogram.
_FIGURES = 7
_WORDS = _FIGURES + BUCKET_COUNT


@dataclass(frozen=True)
class RequestStats:
    """Requests that a disk completed in one direction; no other figure includes `failed` ones.

    `untimed` requests began before the probe was loaded, or their start was not seen. Latencies, in
    ns, and `buckets`, as in `contracts.stats`, are those of the others.
    """

    count: int = 0
    bytes: int = 0
    failed: int = 0
    untimed: int = 0
    latency_total_ns: int = 0
    latency_min_ns: int = 0
    latency_max_ns: int = 0
    buckets: tuple[int, ...] = (0,) * BUCKET_COUNT

    @property
    def latencies(self) -> CallStats:
        """The timed requests, as statistics with a mean and percentiles."""
        return CallStats(
            count=self.count - self.untimed,
            latency_total_ns=self.latency_total_ns,
            latency_min_ns=self.latency_min_ns,
            latency_max_ns=self.latency_max_ns,
            buckets=self.buckets,
        )

    def since(self, before: RequestStats) -> RequestStats:
        """Return the difference to an earlier reading; its extremes are those of the buckets."""
        if not before.count:
            return self
        buckets = tuple(now - then for now, then in zip(self.buckets, before.buckets))
        filled = [index for index, count in enumerate(buckets) if count]
        low_ns = bucket_bounds_ns(filled[0])[0] if filled else 0
        high_ns = bucket_bounds_ns(filled[-1])[1] - 1 if filled else 0
        return RequestStats(
            count=self.count - before.count,
            bytes=self.bytes - before.bytes,
            failed=self.failed - before.failed,
            untimed=self.untimed - before.untimed,
            latency_total_ns=self.latency_total_ns - before.latency_total_ns,
            latency_min_ns=max(low_ns, self.latency_min_ns) if filled else 0,
            latency_max_ns=min(high_ns, self.latency_max_ns),
            buckets=buckets,
        )


@dataclass(frozen=True)
class DeviceStats:
    """The requests of one disk since the probe was loaded, or between two readings."""

    reads: RequestStats = RequestStats()
    writes: RequestStats = RequestStats()

    def since(self, before: DeviceStats) -> DeviceStats:
        """Return the difference to an earlier reading."""
        return DeviceStats(self.reads.since(before.reads), self.writes.since(before.writes))


@dataclass(frozen=True)
class DeviceTotals:
    """The few figures that are read many times a second; the latency is of `timed_writes`."""

    read_bytes: int = 0
    written_bytes: int = 0
    timed_writes: int = 0
    write_latency_total_ns: int = 0


def numbers(device_count: int) -> dict[str, int]:
    """Return the macro that `block.bpf.c` needs besides BUCKET_COUNT and CPU_COUNT, at least 1."""
    return {"DEVICE_COUNT": max(1, device_count)}


class DeviceCounters:
    """The probe's counters in a module that was loaded with `numbers(len(devices))`.

    `devices` are the kernel's numbers of whole disks, MAJOR << 20 | MINOR, in the order of results.
    Counting begins when this is made. Do not read it after the module is closed.
    """

    def __init__(self, module: Module, devices: Sequence[int], cpu_count: int) -> None:
        self._words = module.map_words("device_requests")
        self._device_count = len(devices)
        self._row_words = max(1, self._device_count) * _DIRECTIONS * _WORDS
        self._cpu_count = cpu_count
        for index, device in enumerate(devices):
            module.insert("block_devices", struct.pack("=I", device), struct.pack("=I", index))

    def stats(self) -> tuple[DeviceStats, ...]:
        """Return all figures of each device, summed over CPUs."""
        return tuple(
            DeviceStats(self._requests(2 * index), self._requests(2 * index + 1))
            for index in range(self._device_count)
        )

    def totals(self) -> tuple[DeviceTotals, ...]:
        """Return the figures of each device that a timeline needs."""
        return tuple(self._totals(2 * index) for index in range(self._device_count))

    def _totals(self, entry: int) -> DeviceTotals:
        reads, writes = entry * _WORDS, (entry + 1) * _WORDS
        return DeviceTotals(
            read_bytes=self._sum(reads + 1),
            written_bytes=self._sum(writes + 1),
            timed_writes=self._sum(writes) - self._sum(writes + 3),
            write_latency_total_ns=self._sum(writes + 4),
        )

    def _sum(self, word: int) -> int:
        return sum(self._words[word :: self._row_words])

    def _requests(self, entry: int) -> RequestStats:
        starts = range(entry * _WORDS, len(self._words), self._row_words)
        per_cpu = [self._words[start : start + _WORDS].tolist() for start in starts]
        timed = [words for words in per_cpu if words[0] > words[3]]
        count, size_bytes, failed, untimed, total_ns = (
            sum(words[at] for words in per_cpu) for at in range(5)
        )
        return RequestStats(
            count=count,
            bytes=size_bytes,
            failed=failed,
            untimed=untimed,
            latency_total_ns=total_ns,
            latency_min_ns=min((words[5] for words in timed), default=0),
            latency_max_ns=max((words[6] for words in timed), default=0),
            buckets=tuple(map(sum, zip(*(words[_FIGURES:] for words in per_cpu)))),
        )
