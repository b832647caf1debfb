# SPDX-License-Identifier: Apache-2.0
"""What limited a measured pull, and what would help.

The connections' time is split at each first byte: latency before it, bandwidth after it. The disk,
the CPU and S3's throttling are ruled out first, because each of them makes connections look slow.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass

from contracts.shared.units import counted, format_size
from profiler.pull.measured import PullMeasurement
from profiler.pull.object_sizes import SMALL_BYTES, SizeBucket, histogram, small_request_share
from profiler.pull.result import PullResult, RequestTimes
from sysctl.evidence.over_limit import EbsLimit, OverLimit

#: Shares from which one of these counts as the limit. A worker is one interpreter and can use one
#: core at most.
_WORKERS_CPU_SHARE = 0.85
_HOST_CPU_SHARE = 0.90
_STALLED_SHARE = 0.25
_WRITE_SHARE = 0.5
_REPEATED_SHARE = 0.25
#: Average connections in use per worker that had objects; with fewer, S3 is not the limit.
_FEW_IN_USE = 0.5
#: The smallest share of the time that is worth advice.
_WORTH_SAVING = 0.1


class Limit(enum.Enum):
    """What limits a pull. The first that applies counts, because it hides those after it."""

    DISK = "the disk: the kernel made writers wait for write-back"
    CPU = "the CPU: the workers, or the whole host, used all of it"
    WRITES = "the disk: connections mostly waited until their data was written"
    THROTTLED = "S3's request rate: it answered SlowDown, and requests were repeated"
    ERRORS = "errors: requests were repeated"
    IDLE = "not S3: connections were idle most of the time"
    LATENCY = "latency: connections mostly waited for first bytes"
    BANDWIDTH = "bandwidth: connections mostly read bodies"


#: The limits that an EBS limit can be the reason of.
_OF_THE_DISK = {Limit.DISK, Limit.WRITES, Limit.IDLE}
#: Where the instance's limit is the reason, a faster volume does not help.
_INSTANCE_ADVICE = {
    Limit.DISK: "write-back settings (run `writewise sweep`), or an instance with a higher EBS "
    "limit; a faster volume does not help",
    Limit.WRITES: "an instance with a higher EBS limit; a faster volume does not help",
}
_ADVICE = {
    Limit.DISK: "write-back settings or a faster volume: run `writewise sweep`",
    Limit.CPU: "a client that needs less CPU time per byte, or more workers if cores are idle",
    Limit.WRITES: "a faster volume; `writewise pull` as root shows what the writes waited for",
    Limit.THROTTLED: "fewer connections (workers, max_concurrency), or keys spread over prefixes",
    Limit.ERRORS: "a check of the network and the endpoint; more connections do not help",
    Limit.IDLE: "a check of the disk: `writewise pull` as root shows what the writes waited for",
    Limit.BANDWIDTH: "more connections, unless the instance or the bucket is at its limit",
}


@dataclass(frozen=True)
class PullEvidence:
    """Measured figures of one pull; shares are 0 to 1.

    `first_byte_share`, `write_share` and `repeated_share` are shares of the connections' busy time.
    `connections_in_use` is the average number of busy connections per worker that had an object.
    `cpu_share` is relative to the cores that the workers can use, `host_busy_share` to all CPUs
    (None if unknown). `sizes` is the histogram of object sizes, `small_request_share` the share of
    the requests that were for objects below 8 MiB. `over_limit` is of the EBS volume, None without
    one and if it is unknown.
    """

    requests_per_s: float
    first_byte_share: float
    mean_first_byte_s: float
    mean_object_bytes: float
    cpu_share: float | None
    stalled_share: float | None
    host_busy_share: float | None
    write_share: float
    repeated_share: float
    slow_downs: int
    connections_in_use: float
    sizes: tuple[SizeBucket, ...]
    small_request_share: float
    over_limit: OverLimit | None = None

    @property
    def ebs_limit(self) -> EbsLimit | None:
        """The limit of the EBS volume or its instance that held the disk up, if one did."""
        is_of_disk = self.limit in _OF_THE_DISK
        return self.over_limit.main if self.over_limit and is_of_disk else None

    @property
    def limit(self) -> Limit:
        """The first limit that applies."""
        applies = {
            Limit.DISK: (self.stalled_share or 0) >= _STALLED_SHARE,
            Limit.CPU: self._is_cpu_bound,
            Limit.WRITES: self.write_share >= _WRITE_SHARE,
            Limit.THROTTLED: self.repeated_share >= _REPEATED_SHARE and self.slow_downs > 0,
            Limit.ERRORS: self.repeated_share >= _REPEATED_SHARE,
            Limit.IDLE: self.connections_in_use < _FEW_IN_USE,
            Limit.LATENCY: self.first_byte_share >= self._body_share,
        }
        return next((limit for limit, it_does in applies.items() if it_does), Limit.BANDWIDTH)

    @property
    def _body_share(self) -> float:
        return 1 - self.first_byte_share - self.write_share - self.repeated_share

    @property
    def _is_cpu_bound(self) -> bool:
        is_of_workers = (self.cpu_share or 0) >= _WORKERS_CPU_SHARE
        return is_of_workers or (self.host_busy_share or 0) >= _HOST_CPU_SHARE


def gather(
    result: PullResult,
    worker_count: int,
    stalled_share: float | None,
    cpu_count: int | None = None,
    over_limit: OverLimit | None = None,
) -> PullEvidence | None:
    """Return the evidence of a pull; None if its client reports no requests or nothing arrived.

    `cpu_count` defaults to the number of CPUs that this process may use.
    """
    requests = result.requests
    if requests is None or not result.return_s or not result.objects:
        return None
    cores = min(worker_count, cpu_count or len(os.sched_getaffinity(0)))
    with_objects = min(worker_count, result.objects)
    return PullEvidence(
        requests_per_s=requests.count / result.return_s,
        first_byte_share=_share_of(requests, requests.first_byte_s),
        mean_first_byte_s=requests.first_byte_s / requests.count,
        mean_object_bytes=result.bytes / result.objects,
        cpu_share=_cpu_share(result, cores),
        stalled_share=stalled_share,
        host_busy_share=result.host_busy_share,
        write_share=_share_of(requests, requests.write_s),
        repeated_share=_share_of(requests, requests.repeated_s),
        slow_downs=requests.slow_downs,
        connections_in_use=requests.busy_s / (result.return_s * with_objects),
        sizes=histogram(result.sizes_bytes),
        small_request_share=small_request_share(result.sizes_bytes, requests.count),
        over_limit=over_limit,
    )


def gathered(measured: PullMeasurement) -> PullEvidence | None:
    """Return the evidence of a measured pull; None as in `gather`."""
    share, over = measured.stalled_share, measured.over_limit
    return gather(measured.result, measured.worker_count, share, over_limit=over)


def _share_of(requests: RequestTimes, seconds: float) -> float:
    return seconds / requests.busy_s if requests.busy_s else 0.0


def _cpu_share(result: PullResult, cores: int) -> float | None:
    if result.cpu_s is None or not cores:
        return None
    return min(1.0, result.cpu_s / (result.return_s * cores))


def advise(evidence: PullEvidence) -> str:
    """Return what would help, with the gain to expect from these figures."""
    is_instance = evidence.ebs_limit is not None and evidence.ebs_limit.is_of_instance
    known = _INSTANCE_ADVICE.get(evidence.limit) if is_instance else None
    known = known or _ADVICE.get(evidence.limit)
    return known if known is not None else "; ".join(_against_latency(evidence))


def _against_latency(evidence: PullEvidence) -> list[str]:
    """Return advice against latency.

    Shards save at most the time to the first bytes of requests for small files. The gain may be
    smaller, if another limit comes first.
    """
    advice = []
    saved = evidence.first_byte_share * evidence.small_request_share
    if saved >= _WORTH_SAVING:
        advice.append(
            f"TAR shards instead of {_small(evidence)}, which save up to {saved:.0%} of the time; "
            "with Mountpoint, its metadata cache"
        )
    if evidence.small_request_share < 1 / 2:
        advice.append("larger parts, so that fewer requests wait")
    return [*advice, "more connections"]


def _small(evidence: PullEvidence) -> str:
    """Return the number of small files and their average size."""
    small = [bucket for bucket in evidence.sizes if bucket.from_bytes < SMALL_BYTES]
    count = sum(bucket.objects for bucket in small)
    mean_bytes = sum(bucket.bytes for bucket in small) / max(1, count)
    return f"{counted(count, 'file')} of {format_size(mean_bytes)} on average"
