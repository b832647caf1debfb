"""Statistics of calls, as the probes count them, and usage of resources: mergeable, bounded.

The histogram is log-linear: values below 16 have a bucket each, and each power of two above is
cut into 16 buckets, so a bucket is at most 1/16 of its lower bound wide. The kernel side
(`profiler/bpf/probes/histogram.bpf.h`) and `bucket_bounds_ns` describe the same buckets; a unit
test and a root test hold them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SUB_BUCKETS_LOG2 = 4
SUB_BUCKETS = 1 << SUB_BUCKETS_LOG2
#: Up to 2^42 ns (73 minutes); longer calls go into the last bucket.
BUCKET_COUNT = (42 - SUB_BUCKETS_LOG2 + 1) * SUB_BUCKETS


def bucket_index(latency_ns: int) -> int:
    """Index of the bucket that `latency_ns` (≥ 0) falls in."""
    if latency_ns < SUB_BUCKETS:
        return latency_ns
    exponent = latency_ns.bit_length() - 1
    sub_bucket = (latency_ns >> (exponent - SUB_BUCKETS_LOG2)) - SUB_BUCKETS
    index = (exponent - SUB_BUCKETS_LOG2 + 1) * SUB_BUCKETS + sub_bucket
    return min(index, BUCKET_COUNT - 1)


def bucket_bounds_ns(index: int) -> tuple[int, int]:
    """Lower bound (included) and upper bound (excluded) in ns of bucket `index`."""
    if index < SUB_BUCKETS:
        return index, index + 1
    shift, sub_bucket = index // SUB_BUCKETS - 1, index % SUB_BUCKETS
    return (SUB_BUCKETS + sub_bucket) << shift, (SUB_BUCKETS + sub_bucket + 1) << shift


@dataclass(frozen=True)
class CallStats:
    """Count, bytes and latency of a set of calls that succeeded; `failed` counts the others.

    Latencies are in ns; `latency_min_ns` and `latency_max_ns` are 0 when `count` is 0.
    `buckets` has `BUCKET_COUNT` counts, and none when `count` is 0. For `seek` calls `bytes` is
    the distance; for calls that move nothing it is 0.

    The total latency is split by cause: `throttled_ns` asleep for dirty throttling,
    `device_wait_ns` waiting for block I/O, `sleeping_ns` asleep for another reason (inode or
    journal locks, memory), `queued_ns` ready and waiting for a CPU, `asynchronous_ns` in the hands
    of io_uring while the thread did other things, `on_cpu_ns` the rest. `unbacked_bytes` of the
    bytes are of files on no disk: tmpfs, and devices such as /dev/null.
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
        """The bytes of files on a disk."""
        return self.bytes - self.unbacked_bytes

    @property
    def on_cpu_ns(self) -> int:
        """The rest of the total latency: the time that the calls ran, mostly copying."""
        waited_ns = self.throttled_ns + self.device_wait_ns + self.sleeping_ns
        return self.latency_total_ns - waited_ns - self.queued_ns - self.asynchronous_ns

    @property
    def latency_mean_ns(self) -> float:
        """Mean latency in ns, 0 without calls."""
        return self.latency_total_ns / self.count if self.count else 0.0

    def percentile_ns(self, percent: float) -> float:
        """The latency in ns that `percent` of the calls do not exceed, within 1/32 of its value."""
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
    """The statistics of all calls of `parts` together."""
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
    """Memory and CPU time, the figures of rules that are not of calls.

    Memory is that of the processes followed, all of them together at one moment, the largest sum
    seen: `memory_bytes` is resident plus swapped out, `rss_bytes` resident, `vsize_bytes` mapped.
    `user_ns` and `system_ns` are the CPU time of these processes, `host_*` that of all CPUs of
    the host (`iowait`: idle while a task waits for block I/O).
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
    """The usage of spans of time together: the most memory of any, the sum of the times."""
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
