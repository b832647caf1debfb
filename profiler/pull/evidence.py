"""What held a pull up, from what was measured of it, and what would help.

The connections' time is split at each first byte: before it S3's latency counts, after it
bandwidth. A pull whose writers were made to wait, or whose workers used their cores up, is held up
by that instead: reading a body then takes long for no fault of S3's.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass

from contracts.units import format_size
from profiler.pull.results import PullResult

#: Shares from which on one of these is said to be what holds a pull up. Below half of its time a
#: connection is mostly reading; a worker is one interpreter, so a core is all it can use.
_LATENCY_SHARE = 0.5
_CPU_SHARE = 0.85
_STALLED_SHARE = 0.25
#: Files below it are worth gathering: boto3 fetches larger ones in ranges anyway.
_SMALL_BYTES = 8 * 2**20


class Limit(enum.Enum):
    """What holds a pull up."""

    DISK = "the disk: writers were made to wait for write-back"
    CPU = "the CPU: the workers had none left"
    LATENCY = "latency: connections mostly waited for first bytes"
    BANDWIDTH = "bandwidth: connections mostly read bodies"


@dataclass(frozen=True)
class PullEvidence:
    """Measured figures of one pull; shares are 0 to 1.

    `first_byte_share` is of the time of all connections that were busy, `cpu_share` of the cores
    that the workers can use at once (None when it is not known).
    """

    requests_per_s: float
    first_byte_share: float
    mean_first_byte_seconds: float
    mean_object_bytes: float
    cpu_share: float | None
    stalled_share: float | None

    @property
    def limit(self) -> Limit:
        """The first that applies: each hides what comes after it."""
        if (self.stalled_share or 0) >= _STALLED_SHARE:
            return Limit.DISK
        if (self.cpu_share or 0) >= _CPU_SHARE:
            return Limit.CPU
        is_latency = self.first_byte_share >= _LATENCY_SHARE
        return Limit.LATENCY if is_latency else Limit.BANDWIDTH


def gather(
    result: PullResult,
    worker_count: int,
    stalled_share: float | None,
    cpu_count: int | None = None,
) -> PullEvidence | None:
    """The evidence of a pull; None when its client told no requests, or nothing arrived.

    `cpu_count` is the host's by default.
    """
    requests = result.requests
    if requests is None or not result.return_seconds or not result.objects:
        return None
    busy_seconds = requests.first_byte_seconds + requests.body_seconds
    cores = min(worker_count, cpu_count or os.cpu_count() or 1)
    cpu_share = None
    if result.cpu_seconds is not None and cores:
        cpu_share = min(1.0, result.cpu_seconds / (result.return_seconds * cores))
    return PullEvidence(
        requests_per_s=requests.count / result.return_seconds,
        first_byte_share=requests.first_byte_seconds / busy_seconds if busy_seconds else 0.0,
        mean_first_byte_seconds=requests.first_byte_seconds / requests.count,
        mean_object_bytes=result.bytes / result.objects,
        cpu_share=cpu_share,
        stalled_share=stalled_share,
    )


def advise(evidence: PullEvidence) -> str:
    """What would help, with the gain that these figures let expect; empty without any.

    The estimate for shards is the share of time before first bytes: one request for many files
    leaves their bytes. Something else may then be the limit, before all of it is gained.
    """
    if evidence.limit is Limit.DISK:
        return "write-back settings, or a faster volume: see `writewise sweep`"
    if evidence.limit is Limit.CPU:
        return "a client that needs less CPU time for each byte, or more workers if cores are idle"
    if evidence.limit is Limit.BANDWIDTH:
        return "more connections, unless the instance's or the bucket's own limit is reached"
    if evidence.mean_object_bytes >= _SMALL_BYTES:
        return "larger parts, so that fewer requests wait, or more connections"
    size = format_size(evidence.mean_object_bytes)
    saved = f"{evidence.first_byte_share:.0%}"
    return (
        f"TAR shards instead of files of {size}: they save up to about {saved} of the time; "
        "or more connections; where files are opened through Mountpoint, its metadata cache"
    )
