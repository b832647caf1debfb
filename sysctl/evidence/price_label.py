# SPDX-License-Identifier: Apache-2.0
"""The label of a price (low, moderate or high) and the figures that decide it.

The label is the highest that any figure gives. Unknown figures give no label and are listed.
`docs/explanation/price.md` has the same limits with their reasons.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sysctl.evidence.price_seen import Latency, PriceSeen


class Label(str, enum.Enum):
    """The risk of a setting in one word."""

    LOW = "low"
    MODERATE = "moderate"
    HIGH = "high"


@dataclass(frozen=True)
class Bounds:
    """The bounds of a figure: above `moderate` the price is moderate, above `high` it is high.

    `high` is None for a figure that never makes a price high.
    """

    moderate: float
    high: float | None = None

    def label(self, value: float) -> Label:
        """Return the label for one figure."""
        if self.high is not None and value > self.high:
            return Label.HIGH
        return Label.MODERATE if value > self.moderate else Label.LOW


#: 25 % is the kernel's default dirty_ratio of 20 % with room for a short excess. Above 50 %, most
#: memory cannot be reclaimed before it is written.
AT_RISK_SHARE = Bounds(0.25, 0.50)
#: 30 s is the kernel's default dirty_expire_centisecs; 2 min is the notice of a spot interruption.
AFTER_RETURN_S = Bounds(30.0, 120.0)
#: 40 % is the dirty_ratio of TuneD's profile throughput-performance. A bound alone loses no data.
CEILING_SHARE = Bounds(0.40)
#: 1 s is etcd's default election timeout; 10 s is the default deadline for Kubernetes controllers
#: to renew their lease.
WAIT_S = Bounds(1.0, 10.0)
#: A wait is much longer than under the current settings if it is this many times as long and
#: exceeds etcd's heartbeat interval.
WAIT_FACTOR, WAIT_NOTICED_S = 5.0, 0.1
#: 1 % of the time affects a 99th percentile, 10 % a 90th.
PRESSURE_SHARE = Bounds(0.01, 0.10)
LOST_SHARE = Bounds(0.01, 0.10)
#: If no rate is known: the baseline of an EBS gp3 volume, 125 MiB/s.
ASSUMED_RATE_BYTES_PER_S = 125 * 2**20


@dataclass(frozen=True)
class Figures:
    """The known figures of a setting's price; None if unknown.

    `memory_bytes` is the dirtyable memory. `after_return_s` is how long after the return all data
    was durable. `seen` is from the setting's own run with a neighbour, `present_seen` from that of
    the current settings.
    """

    memory_bytes: int
    at_risk_bytes: int
    ceiling_bytes: int
    after_return_s: float | None = None
    seen: PriceSeen | None = None
    present_seen: PriceSeen | None = None


class Criterion(str, enum.Enum):
    """A figure that decides the label; the value is its name."""

    AT_RISK = "bytes at risk"
    AFTER_RETURN = "time until durable"
    CEILING = "ceiling"
    FSYNC = "a neighbour's fsync"
    READ = "a neighbour's reads"
    PRESSURE = "memory pressure"
    LOST = "memory that programs lost"
    #: All figures of a run with a neighbour.
    NEIGHBOUR = "what a neighbour and other programs notice"


@dataclass(frozen=True)
class Rating:
    """A label, the criteria that decide it, and those with unknown figures."""

    label: Label
    figures: Figures
    because: tuple[Criterion, ...] = ()
    unknown: tuple[Criterion, ...] = ()


def rate(figures: Figures) -> Rating:
    """Return the label of a price, from all known figures."""
    found = {criterion: judge(figures) for criterion, judge in _CRITERIA.items()}
    known = {criterion: label for criterion, label in found.items() if label is not None}
    label = max(known.values(), key=list(Label).index)
    because = () if label is Label.LOW else tuple(c for c, own in known.items() if own is label)
    unknown = tuple(criterion for criterion, own in found.items() if own is None)
    return Rating(label, figures, because, unknown if figures.seen else (Criterion.NEIGHBOUR,))


def left_s(figures: Figures) -> float:
    """Return how long after the return all data was durable (s); estimated if not measured."""
    if figures.after_return_s is None:
        return figures.at_risk_bytes / ASSUMED_RATE_BYTES_PER_S
    return figures.after_return_s


def _fsync(figures: Figures) -> Label | None:
    return _wait(figures, lambda seen: seen.fsync)


def _read(figures: Figures) -> Label | None:
    return _wait(figures, lambda seen: seen.read)


def _wait(figures: Figures, latency: Callable[[PriceSeen], Latency | None]) -> Label | None:
    seen = latency(figures.seen) if figures.seen else None
    if seen is None:
        return None
    present = latency(figures.present_seen) if figures.present_seen else None
    label = WAIT_S.label(seen.worst_s)
    if label is Label.LOW and present is not None and _is_far_longer(seen, present):
        return Label.MODERATE
    return label


def _is_far_longer(seen: Latency, present: Latency) -> bool:
    return seen.worst_s > max(WAIT_NOTICED_S, WAIT_FACTOR * present.worst_s)


def _pressure(figures: Figures) -> Label | None:
    share = figures.seen.memory_pressure_share if figures.seen else None
    return None if share is None else PRESSURE_SHARE.label(share)


def _lost(figures: Figures) -> Label | None:
    lost_bytes = figures.seen.lost_bytes if figures.seen else None
    return None if lost_bytes is None else LOST_SHARE.label(lost_bytes / figures.memory_bytes)


_CRITERIA: Mapping[Criterion, Callable[[Figures], Label | None]] = {
    Criterion.AT_RISK: lambda known: AT_RISK_SHARE.label(known.at_risk_bytes / known.memory_bytes),
    Criterion.AFTER_RETURN: lambda known: AFTER_RETURN_S.label(left_s(known)),
    Criterion.CEILING: lambda known: CEILING_SHARE.label(known.ceiling_bytes / known.memory_bytes),
    Criterion.FSYNC: _fsync,
    Criterion.READ: _read,
    Criterion.PRESSURE: _pressure,
    Criterion.LOST: _lost,
}
