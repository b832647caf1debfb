# SPDX-License-Identifier: Apache-2.0
"""Every metric: name, type, labels and meaning. The exporters and the reference page use these.

No label has a process id, a command, a file, a key or a control group that was found: each of these
would let other programs make as many series as they like. `most_series` is the bound that follows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from contracts.causes import Cause
from contracts.stats import SUB_BUCKETS, SUB_BUCKETS_LOG2

#: Upper bounds of a histogram's buckets: 2^10 ns (1 µs) to 2^34 ns (17 s), each twice the last.
BOUND_EXPONENTS = range(10, 35)
BOUNDS_S = tuple(2**exponent / 1e9 for exponent in BOUND_EXPONENTS)
#: The buckets, +Inf, the sum and the count.
HISTOGRAM_SERIES = len(BOUND_EXPONENTS) + 3
#: At most so many disks are counted, so that the largest contract stays below `HARD_CAP`.
MOST_DISKS = 16
HARD_CAP = 3000


class MetricKind(enum.Enum):
    """The type of a metric, in the words of OpenMetrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True)
class MetricDefinition:
    """A metric: its full name, its type, what it says, and the names of its labels."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The unit in its name: `seconds`, `bytes`, or none."""
        words = self.name.removesuffix("_total").rsplit("_", 1)
        return words[-1] if words[-1] in ("seconds", "bytes") else ""


@dataclass(frozen=True)
class Latencies:
    """A histogram's value: the count of each bucket, the last of which is +Inf, and their sum."""

    counts: tuple[int, ...]
    total_ns: int


@dataclass(frozen=True)
class MetricValue:
    """A value of a metric; `labels` has the labels' values in the definition's order."""

    metric: MetricDefinition
    value: float | Latencies
    labels: tuple[str, ...] = ()


def by_metric(values: Iterable[MetricValue]) -> dict[MetricDefinition, list[MetricValue]]:
    """Return the values of each metric, in the order of the first value of each."""
    found: dict[MetricDefinition, list[MetricValue]] = {}
    for value in values:
        found.setdefault(value.metric, []).append(value)
    return found


def latencies(buckets: tuple[int, ...], total_ns: int) -> Latencies:
    """Return the coarse histogram of fine buckets (`contracts.stats`); () has no calls.

    A fine bucket excludes its upper bound, and `le` includes it: a latency of exactly 2^k ns counts
    in the next bucket.
    """
    starts = [0, *map(_first_fine, BOUND_EXPONENTS), len(buckets)]
    counts = tuple(sum(buckets[low:high]) for low, high in zip(starts, starts[1:]))
    return Latencies(counts, total_ns)


def _first_fine(exponent: int) -> int:
    """Return the index of the fine bucket that begins at 2^exponent ns."""
    return (exponent - SUB_BUCKETS_LOG2 + 1) * SUB_BUCKETS


def _counter(name: str, help: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(f"writewise_{name}_total", MetricKind.COUNTER, help, labels)


def _gauge(name: str, help: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(f"writewise_{name}", MetricKind.GAUGE, help, labels)


def _histogram(name: str, help: str, *labels: str) -> MetricDefinition:
    return MetricDefinition(f"writewise_{name}", MetricKind.HISTOGRAM, help, labels)


BUILD = MetricDefinition(
    "writewise_build_info", MetricKind.INFO, "Versions of Writewise and BCC.", ("version", "bcc")
)
UP = _gauge("up", "1 if everything that was asked for is measured, 0 if a part failed.")
THROTTLE_SECONDS = _counter(
    "throttle_seconds", "Sleeps that the kernel imposed on writers (dirty throttling), as planned."
)
THROTTLE_PAUSES = _counter("throttle_pauses", "Number of these sleeps.")
ABOVE_FREERUN = _counter(
    "above_freerun_seconds", "Time in which so much was dirty that the kernel may throttle writers."
)
DIRTY_MEMORY = _gauge("dirty_memory_bytes", "Memory that is dirty, or being written back.", "state")
DIRTY_THRESHOLD = _gauge(
    "dirty_threshold_bytes",
    "Thresholds in force: of background write-back, of throttling (freerun), of dirty memory.",
    "threshold",
)
DISK_WRITTEN = _counter("disk_written_bytes", "What the disk wrote, whoever dirtied it.", "device")
DISK_WRITES = _histogram(
    "disk_write_duration_seconds", "Time of the disk's write requests in the driver.", "device"
)
EBS_EXCEEDED = _counter(
    "ebs_limit_exceeded_seconds",
    "Time in which more was asked of an EBS volume than a limit allows, by its own counters.",
    "device",
    "limit",
)
EBS_QUEUE = _gauge("ebs_queue_length", "Requests in the EBS volume's queue.", "device")
CALL_PROBES = _gauge(
    "call_probes_attached", "1 while calls are counted (level calls, or escalated), else 0."
)
_SLOT = ("call", "path", "sizes")
CALL_DURATION = _histogram(
    "call_duration_seconds", "Time of the calls that the contract counts.", *_SLOT
)
CALL_BYTES = _counter("call_bytes", "Bytes that these calls moved.", *_SLOT)
CALL_FAILURES = _counter("call_failures", "Calls that failed; no other metric has them.", *_SLOT)
CALL_TIME = _counter(
    "call_time_seconds", "Time of these calls by what they waited for.", *_SLOT, "cause"
)
TIMEFRAMES = _counter("contract_timeframes", "Timeframes of the contract that were judged.")
VIOLATED = _counter(
    "contract_violated_timeframes", "Timeframes in which a rule was violated.", "rule"
)
THRESHOLD_RATIO = _gauge(
    "contract_threshold_ratio",
    "Value of a rule in the last timeframe, as a multiple of its threshold.",
    "rule",
)
LOST_EVENTS = _counter("lost_events", "What the probes could not count, by reason.", "reason")
GOVERN_RUNNING = _gauge("govern_running", "1 while `writewise govern` is at work, else 0.")
GOVERN_RAISED = _gauge("govern_raised", "1 while the governor's thresholds are raised, else 0.")
GOVERN_BURSTS = _counter("govern_bursts", "Bursts for which it raised the thresholds.")
GOVERN_ARRIVED = _counter("govern_arrived_bytes", "What arrived in these bursts.")
GOVERN_RAISED_TIME = _counter("govern_raised_seconds", "Time with raised thresholds.")
GOVERN_SAVED = _counter("govern_saved_seconds", "Time that writers did not wait, predicted.")
PULL_RETURN = _gauge("last_pull_return_seconds", "Time until the last pull returned.")
PULL_DURABLE = _gauge("last_pull_durable_seconds", "Time until its data was on the device.")
PULL_TIME = _gauge("last_pull_timestamp_seconds", "When the last pull was measured (Unix time).")

#: What `writewise watch` exports, in this order.
OF_THE_HOST = (
    *(BUILD, UP, THROTTLE_SECONDS, THROTTLE_PAUSES, ABOVE_FREERUN, DIRTY_MEMORY, DIRTY_THRESHOLD),
    *(CALL_PROBES, TIMEFRAMES, LOST_EVENTS),
)
OF_DISKS = (DISK_WRITTEN, DISK_WRITES, EBS_EXCEEDED, EBS_QUEUE)
OF_CALLS = (CALL_DURATION, CALL_BYTES, CALL_FAILURES, CALL_TIME)
OF_RULES = (VIOLATED, THRESHOLD_RATIO)
OF_THE_GOVERNOR = (
    *(GOVERN_RUNNING, GOVERN_RAISED, GOVERN_BURSTS, GOVERN_ARRIVED),
    *(GOVERN_RAISED_TIME, GOVERN_SAVED),
)
OF_A_SERVICE = (*OF_THE_HOST, *OF_DISKS, *OF_CALLS, *OF_RULES, *OF_THE_GOVERNOR)
#: What batch commands write into a textfile.
OF_A_BATCH = (PULL_RETURN, PULL_DURABLE, PULL_TIME)

STATES = ("dirty", "writeback")
THRESHOLDS = ("background", "freerun", "dirty")
LIMITS = ("volume_iops", "volume_throughput", "instance_iops", "instance_throughput")
#: The label of each cause.
CAUSES = {
    Cause.THROTTLING: "throttling",
    Cause.DEVICE: "device",
    Cause.SLEEPING: "sleeping",
    Cause.QUEUED: "cpu_queue",
    Cause.ASYNCHRONOUS: "io_uring",
    Cause.ON_CPU: "on_cpu",
}
#: Reasons of losses that a watch of the whole host can have.
REASONS = (
    *("calls_not_recorded", "calls_without_exit", "calls_overwritten", "paths_too_deep"),
    *("paths_not_read", "aio_requests", "uring_ends_unseen", "probe_runs_missed"),
)
SERIES_OF_HOST = 20
SERIES_OF_SLOT = HISTOGRAM_SERIES + 2 + len(CAUSES)
SERIES_OF_DISK = 1 + HISTOGRAM_SERIES + len(LIMITS) + 1


def most_series(slots: int, disks: int, rules: int, *, governed: bool = False) -> int:
    """Return how many series a watch can have at most, whatever other programs do."""
    governor = len(OF_THE_GOVERNOR) if governed else 0
    return SERIES_OF_HOST + SERIES_OF_SLOT * slots + SERIES_OF_DISK * disks + 2 * rules + governor
