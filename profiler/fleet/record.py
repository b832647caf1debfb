# SPDX-License-Identifier: Apache-2.0
"""The record of a pull, or of a day that `watch` measured: what it holds, and how it is written.

A record has no names of hosts, buckets, objects, files or users. Its counters and histograms merge
by addition, exactly and in any order. `profiler.fleet.reading` reads records of other nodes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contracts.causes import Cause
from contracts.shared.errors import WritewiseError
from contracts.shared.units import format_size
from contracts.stats import NonzeroBuckets
from sysctl.evidence.class_key import ClassKey

KIND = "writewise-record"
#: Of the record of a pull, and of that of a day.
PULL_VERSION, DAY_VERSION = 1, 2
#: Of one record: as written, and as read.
MAX_WRITTEN_BYTES, MAX_UNPACKED_BYTES = 8 * 1000, 2**20
PULL_HISTOGRAMS = ("write_latency_ns", "return_time_ns", "durable_time_ns")
DAY_HISTOGRAMS = ("disk_write_ns",)
HISTOGRAMS = (*PULL_HISTOGRAMS, *DAY_HISTOGRAMS)
IN_FORCE, CHANGED, NOT_APPLIED = "in force", "changed", "not applied"
VERIFIED = (IN_FORCE, CHANGED, NOT_APPLIED)
TREATED, CONTROL = "treated", "control"
ARMS = (TREATED, CONTROL)
SYSCTL_PREFIX = "vm."


class RecordError(WritewiseError):
    """A record cannot be made or written."""


@dataclass(frozen=True)
class RolloutArm:
    """The roll-out that the node takes part in, its stage (from 1) and its arm."""

    id: str
    stage: int
    arm: str


@dataclass(frozen=True)
class PullCounts:
    """How many pulls there were, how many of them failed, and sums over those that did not."""

    count: int = 0
    failed: int = 0
    bytes: int = 0
    return_ns: int = 0
    durable_ns: int = 0


@dataclass(frozen=True)
class PullRates:
    """What the model of a pull needs, as this node measured it (`sysctl.evidence.prediction`)."""

    burst_bytes: int
    dirtyable_bytes: int
    source_bytes_per_s: float
    device_bytes_per_s: float
    seen_bytes: int


@dataclass(frozen=True)
class DayCounts:
    """What `watch` counted of the whole host, from samples a second apart.

    `watched_ns` is the time of the samples. `burst_ns` is the part of it with more dirty data than
    the background threshold, `above_freerun_ns` with so much that writers may be throttled, and
    `stalled_ns` of the samples in which writers slept a tenth of the time or more. `throttled_ns`
    are the planned sleeps of all writers together, `pauses` their number. `written_bytes` are those
    of the watched disks. `lost_events` could not be counted.
    """

    watched_ns: int = 0
    burst_ns: int = 0
    above_freerun_ns: int = 0
    stalled_ns: int = 0
    throttled_ns: int = 0
    pauses: int = 0
    written_bytes: int = 0
    lost_events: int = 0


@dataclass(frozen=True)
class FleetRecord:
    """One record. `start` is in ISO 8601 and UTC, `seconds` is the time that it covers.

    `node` is a random UUID. `settings` are the write-back sysctls in force at the start.
    `histograms` have the buckets of `contracts.stats`. `stalls` is the time in write calls by
    cause, `writer_ns` the time that writing threads had: the time until the pull returned, for each
    thread. `oom_kills` and `memory_psi_full_us` are the host's, `verify` is whether what was
    applied is in force. None means unknown, or that it does not apply.

    With `day` it is the record of a day, or of a part of one. Its class has no client and no memory
    limit, and `peak_at_risk_bytes` is the most dirty data of the whole host. It has no pulls, no
    stalls by cause, no time of writers and no rates.
    """

    writewise: str
    node: str
    start: str
    seconds: float
    node_class: ClassKey
    settings: Mapping[str, int]
    pulls: PullCounts = PullCounts()
    histograms: Mapping[str, NonzeroBuckets] = field(default_factory=dict)
    stalls: Mapping[Cause, int] = field(default_factory=dict)
    writer_ns: int = 0
    peak_at_risk_bytes: int | None = None
    oom_kills: int | None = None
    memory_psi_full_us: int | None = None
    verify: str | None = None
    rollout: RolloutArm | None = None
    rates: PullRates | None = None
    day: DayCounts | None = None

    @property
    def is_of_pull(self) -> bool:
        """Whether it is the record of a pull."""
        return self.day is None

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data. `host` is for readers; this program writes none."""
        return {
            "kind": KIND,
            "version": PULL_VERSION if self.day is None else DAY_VERSION,
            "writewise": self.writewise,
            "node": self.node,
            "host": None,
            "start": self.start,
            "seconds": self.seconds,
            "class": self.node_class.to_json(),
            "class_key": str(self.node_class),
            "rollout": vars(self.rollout) if self.rollout else None,
            "settings": {
                name[len(SYSCTL_PREFIX) :]: value for name, value in sorted(self.settings.items())
            },
            "peak_at_risk_bytes": self.peak_at_risk_bytes,
            "oom_kills": self.oom_kills,
            "memory_psi_full_us": self.memory_psi_full_us,
            "verify": self.verify,
            **(self._of_pull() if self.day is None else self._of_day(self.day)),
        }

    def _of_pull(self) -> dict[str, Any]:
        return {
            "pulls": vars(self.pulls),
            "histograms": self._buckets(PULL_HISTOGRAMS),
            "stalls": {cause.name.lower(): self.stalls.get(cause, 0) for cause in Cause},
            "writer_ns": self.writer_ns,
            "rates": vars(self.rates) if self.rates else None,
        }

    def _of_day(self, day: DayCounts) -> dict[str, Any]:
        return {"day": vars(day), "histograms": self._buckets(DAY_HISTOGRAMS)}

    def _buckets(self, names: Iterable[str]) -> dict[str, list[list[int]]]:
        return {name: [list(pair) for pair in self.histograms.get(name, ())] for name in names}

    def packed(self) -> bytes:
        """Return the record as a line of JSON in gzip; equal records give equal bytes.

        Raises RecordError if it is larger than a record may be.
        """
        line = json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False) + "\n"
        packed = gzip.compress(line.encode(), mtime=0)
        if len(packed) > MAX_WRITTEN_BYTES:
            size, most = format_size(len(packed)), format_size(MAX_WRITTEN_BYTES)
            raise RecordError(f"the record has {size}, more than the {most} of a record")
        return packed
