# SPDX-License-Identifier: Apache-2.0
"""Statistics of calls, as the probes count them, and resource usage; both can be merged.

The histogram is log-linear: values below 16 have a bucket each, and each power of two above is
divided into 16 buckets, so a bucket is at most 1/16 of its lower bound wide. `bucket_bounds_ns` and
`profiler/bpf/probes/histogram.bpf.h` define the same buckets; a unit test and a root test check
that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SUB_BUCKETS_LOG2 = 4
SUB_BUCKETS = 1 << SUB_BUCKETS_LOG2
#: Up to 2^42 ns (73 minutes); longer calls go into the last bucket.
BUCKET_COUNT = (42 - SUB_BUCKETS_LOG2 + 1) * SUB_BUCKETS

#: The index of a bucket and the number of calls in it, for each bucket that has calls.
NonzeroBuckets = Sequence[tuple[int, int]]


def bucket_bounds_ns(index: int) -> tuple[int, int]:
    """Return the lower (included) and the upper bound (excluded) in ns of bucket `index`."""
    if index < SUB_BUCKETS:
        return index, index + 1
    shift, sub_bucket = index // SUB_BUCKETS - 1, index % SUB_BUCKETS
    return (SUB_BUCKETS + sub_bucket) << shift, (SUB_BUCKETS + sub_bucket + 1) << shift


def bucket_index(value_ns: int) -> int:
    """Return the index of the bucket of a value in ns (≥ 0)."""
    if value_ns < SUB_BUCKETS:
        return value_ns
    shift = value_ns.bit_length() - 1 - SUB_BUCKETS_LOG2
    index = (shift + 1) * SUB_BUCKETS + (value_ns >> shift) - SUB_BUCKETS
    return min(index, BUCKET_COUNT - 1)


def nonzero_buckets(buckets: Sequence[int]) -> NonzeroBuckets:
    """Return each bucket that has calls: its index and the number of calls.

    These merge by adding the numbers of each index: exact, and independent of the order.
    """
    return tuple((index, calls) for index, calls in enumerate(buckets) if calls)


def all_buckets(nonzero: NonzeroBuckets) -> tuple[int, ...]:
    """Return all `BUCKET_COUNT` buckets, of which indexes that occur twice are added.

    The result is empty without calls, as in `CallStats`. Raises IndexError.
    """
    buckets = [0] * BUCKET_COUNT
    for index, calls in nonzero:
        buckets[index] += calls
    return tuple(buckets) if nonzero else ()


def stats_of_buckets(nonzero: NonzeroBuckets) -> CallStats:
    """Return statistics of which only the buckets are known: extremes are those of buckets."""
    if not nonzero:
        return CallStats()
    used = [index for index, _ in nonzero]
    return CallStats(
        count=sum(calls for _, calls in nonzero),
        latency_min_ns=bucket_bounds_ns(min(used))[0],
        latency_max_ns=bucket_bounds_ns(max(used))[1] - 1,
        buckets=all_buckets(nonzero),
    )


@dataclass(frozen=True)
class CallStats:
    """Count, bytes and latency of a set of calls that succeeded; `failed` counts the others.

    Latencies are in ns; `latency_min_ns` and `latency_max_ns` are 0 if `count` is 0. `buckets` has
    `BUCKET_COUNT` counts, or none if `count` is 0. `bytes` is the distance for `seek` calls and 0
    for calls that move nothing.

    The total latency is split by cause: `throttled_ns` in dirty throttling, `device_wait_ns`
    waiting for block I/O, `sleeping_ns` asleep for another reason (inode or journal locks, memory),
    `queued_ns` runnable and waiting for a CPU, `asynchronous_ns` in io_uring while the thread did
    other things, `on_cpu_ns` the rest. `unbacked_bytes` counts the bytes of files that are not on
    a disk: tmpfs, and devices such as /dev/null.
    """

    count: int = 0
    bytes: int = 0
    failed: int = 0
    latency_total_ns: int = 0
    latency_min_ns: int = 0
    latency_max_ns: int = 0
    buckets: tuple[int, ...] = ()
    unbacked_bytes: int = 0
    throttled_ns: int = 0
    device_wait_ns: int = 0
    sleeping_ns: int = 0
    queued_ns: int = 0
    asynchronous_ns: int = 0

    @property
    def backed_bytes(self) -> int:
        """The bytes of files that are on a disk."""
        return self.bytes - self.unbacked_bytes

    @property
    def on_cpu_ns(self) -> int:
        """The time in ns that the calls ran, mostly copying: the rest of the total latency."""
        waited_ns = self.throttled_ns + self.device_wait_ns + self.sleeping_ns
        return self.latency_total_ns - waited_ns - self.queued_ns - self.asynchronous_ns

    @property
    def latency_mean_ns(self) -> float:
        """The mean latency in ns; 0 without calls."""
        return self.latency_total_ns / self.count if self.count else 0.0

    @property
    def octaves(self) -> tuple[tuple[int, int, int], ...]:
        """The calls by latency: lower bound (included), upper bound (excluded) in ns, and count.

        Each power of two from 16 ns has one entry, without those before the first and after the
        last call. The last possible entry also has all longer calls.
        """
        sums = [
            (
                bucket_bounds_ns(first)[0],
                bucket_bounds_ns(first + SUB_BUCKETS - 1)[1],
                sum(self.buckets[first : first + SUB_BUCKETS]),
            )
            for first in range(0, len(self.buckets), SUB_BUCKETS)
        ]
        used = [at for at, (_, _, calls) in enumerate(sums) if calls]
        return tuple(sums[used[0] : used[-1] + 1]) if used else ()

    def percentile_ns(self, percent: float) -> float:
        """The latency in ns that `percent` % of the calls do not exceed, accurate to 1/32."""
        if not self.count:
            return 0.0
        wanted = max(1.0, self.count * percent / 100)
        seen = 0
        for index, calls in enumerate(self.buckets):
            seen += calls
            if seen >= wanted:
                low, high = bucket_bounds_ns(index)
                middle = (low + high - 1) / 2
                return min(max(middle, self.latency_min_ns), self.latency_max_ns)
        return float(self.latency_max_ns)


def merge(parts: Sequence[CallStats]) -> CallStats:
    """Return the statistics of all calls in `parts`."""
    counted = [part for part in parts if part.count]
    return CallStats(
        count=sum(part.count for part in parts),
        bytes=sum(part.bytes for part in parts),
        failed=sum(part.failed for part in parts),
        latency_total_ns=sum(part.latency_total_ns for part in parts),
        latency_min_ns=min((part.latency_min_ns for part in counted), default=0),
        latency_max_ns=max((part.latency_max_ns for part in counted), default=0),
        buckets=tuple(map(sum, zip(*(part.buckets for part in counted)))),
        throttled_ns=sum(part.throttled_ns for part in parts),
        device_wait_ns=sum(part.device_wait_ns for part in parts),
        sleeping_ns=sum(part.sleeping_ns for part in parts),
        queued_ns=sum(part.queued_ns for part in parts),
        asynchronous_ns=sum(part.asynchronous_ns for part in parts),
        unbacked_bytes=sum(part.unbacked_bytes for part in parts),
    )


@dataclass(frozen=True)
class ResourceUsage:
    """Memory and CPU time, for the measurements in `RESOURCES`.

    Memory is the peak of the sum over all profiled processes: `memory_bytes` is resident plus
    swapped out, `rss_bytes` resident, `vsize_bytes` mapped. `user_ns` and `system_ns` are the CPU
    time of these processes, `host_*` that of all CPUs of the host (`iowait`: idle while a task
    waits for block I/O).
    """

    memory_bytes: int = 0
    rss_bytes: int = 0
    vsize_bytes: int = 0
    user_ns: int = 0
    system_ns: int = 0
    host_user_ns: int = 0
    host_system_ns: int = 0
    host_iowait_ns: int = 0


def merge_usage(parts: Sequence[ResourceUsage]) -> ResourceUsage:
    """Return the usage over several spans of time: peak memory, sums of the times."""
    return ResourceUsage(
        memory_bytes=max((part.memory_bytes for part in parts), default=0),
        rss_bytes=max((part.rss_bytes for part in parts), default=0),
        vsize_bytes=max((part.vsize_bytes for part in parts), default=0),
        user_ns=sum(part.user_ns for part in parts),
        system_ns=sum(part.system_ns for part in parts),
        host_user_ns=sum(part.host_user_ns for part in parts),
        host_system_ns=sum(part.host_system_ns for part in parts),
        host_iowait_ns=sum(part.host_iowait_ns for part in parts),
    )
