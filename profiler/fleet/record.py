# SPDX-License-Identifier: Apache-2.0
"""The record of a node's pulls: what it holds, and how it is written.

A record has no names of hosts, buckets, objects, files or users. Its counters and histograms merge
by addition, exactly and in any order. `profiler.fleet.reading` reads records of other nodes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contracts.causes import Cause
from contracts.shared.errors import WritewiseError
from contracts.shared.units import format_size
from contracts.stats import NonzeroBuckets
from sysctl.evidence.class_key import ClassKey

KIND, VERSION = "writewise-record", 1
#: Of one record: as written, and as read.
MAX_WRITTEN_BYTES, MAX_UNPACKED_BYTES = 8 * 1000, 2**20
HISTOGRAMS = ("write_latency_ns", "return_time_ns", "durable_time_ns")
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
class FleetRecord:
    """One record. `start` is in ISO 8601 and UTC, `seconds` is the time that it covers.

    `node` is a random UUID. `settings` are the write-back sysctls in force at the start.
    `histograms` have the buckets of `contracts.stats`. `stalls` is the time in write calls by
    cause, `writer_ns` the time that writing threads had: the time until the pull returned, for each
    thread. `oom_kills` and `memory_psi_full_us` are the host's, `verify` is whether what was
    applied is in force. None means unknown, or that it does not apply.
    """

    writewise: str
    node: str
    start: str
    seconds: float
    node_class: ClassKey
    settings: Mapping[str, int]
    pulls: PullCounts
    histograms: Mapping[str, NonzeroBuckets] = field(default_factory=dict)
    stalls: Mapping[Cause, int] = field(default_factory=dict)
    writer_ns: int = 0
    peak_at_risk_bytes: int | None = None
    oom_kills: int | None = None
    memory_psi_full_us: int | None = None
    verify: str | None = None
    rollout: RolloutArm | None = None
    rates: PullRates | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data. `host` is for readers; this program writes none."""
        return {
            "kind": KIND,
            "version": VERSION,
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
            "pulls": vars(self.pulls),
            "histograms": {
                name: [list(pair) for pair in self.histograms.get(name, ())] for name in HISTOGRAMS
            },
            "stalls": {cause.name.lower(): self.stalls.get(cause, 0) for cause in Cause},
            "writer_ns": self.writer_ns,
            "peak_at_risk_bytes": self.peak_at_risk_bytes,
            "oom_kills": self.oom_kills,
            "memory_psi_full_us": self.memory_psi_full_us,
            "verify": self.verify,
            "rates": vars(self.rates) if self.rates else None,
        }

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
