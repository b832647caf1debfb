"""The label of a price: low, moderate or high, and the figures that decide it.

The label is the highest that any one figure gives. A figure that is not known gives none, and is
named. `docs/advice.md` has the same limits with their reasons.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Optional

from contracts.shared.units import format_seconds, format_size
from sysctl.evidence.price_seen import Latency, PriceSeen


class Label(str, enum.Enum):
    """How much a setting costs, in a word."""

    LOW = "low"
    MODERATE = "moderate"
    HIGH = "high"


@dataclass(frozen=True)
class Bounds:
    """Above `moderate` a figure makes a price moderate, above `high` (None: never) high."""

    moderate: float
    high: float | None = None

    def label(self, value: float) -> Label:
        """The label that this one figure gives."""
        if self.high is not None and value > self.high:
            return Label.HIGH
        return Label.MODERATE if value > self.moderate else Label.LOW


#: A quarter is the kernel's default dirty_ratio of 20 %, with room for what exceeds it shortly.
#: Above a half, most memory cannot be reclaimed before it is written.
AT_RISK_SHARE = Bounds(0.25, 0.50)
#: 30 s is the kernel's default dirty_expire_centisecs; 2 min is the notice of a spot interruption.
AFTER_RETURN_S = Bounds(30.0, 120.0)
#: 40 % is the dirty_ratio of tuned's profile throughput-performance. A bound alone is no loss.
CEILING_SHARE = Bounds(0.40)
#: 1 s is etcd's default election timeout, 10 s the default deadline of Kubernetes' controllers to
#: renew their lease.
WAIT_S = Bounds(1.0, 10.0)
#: Longer than under the present settings: so many times, and longer than etcd's heartbeat interval.
WAIT_FACTOR, WAIT_NOTICED_S = 5.0, 0.1
#: One moment in a hundred is noticed in a 99th percentile, one in ten in a 90th.
PRESSURE_SHARE = Bounds(0.01, 0.10)
LOST_SHARE = Bounds(0.01, 0.10)
#: Where no rate is known: the least that EBS gp3 gives a volume, 125 MiB/s.
ASSUMED_RATE_BYTES_PER_S = 125 * 2**20


@dataclass(frozen=True)
class Figures:
    """What is known of a setting's price, None where it is not.

    `memory_bytes` is the memory that may be dirty. `after_return_s` is how long after the return
    the pull was not yet durable. `seen` is of the setting's own run with a neighbour,
    `present_seen` of the one under the present settings.
    """

    memory_bytes: int
    at_risk_bytes: int
    ceiling_bytes: int
    after_return_s: float | None = None
    seen: PriceSeen | None = None
    present_seen: PriceSeen | None = None


@dataclass(frozen=True)
class Rating:
    """A label, the sentences' parts that say which figures decide it, and what was not known."""

    label: Label
    because: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Part:
    """What one figure gives; `words` say it."""

    label: Label
    words: str


#: A figure's name, and what it gives; None where it is not known.
_Criterion = tuple[str, Callable[[Figures], Optional[_Part]]]


def rate(figures: Figures) -> Rating:
    """The label of a price by all figures that are known."""
    parts = [(name, judge(figures)) for name, judge in _CRITERIA]
    known = [part for _, part in parts if part is not None]
    label = max((part.label for part in known), key=list(Label).index)
    because = () if label is Label.LOW else tuple(p.words for p in known if p.label is label)
    return Rating(label, because, tuple(_unknown(figures, parts)))


def _unknown(figures: Figures, parts: list[tuple[str, _Part | None]]) -> Iterator[str]:
    """The figures that are not known; those of a run with a neighbour together without one."""
    if figures.seen is None:
        yield "what a neighbour and other programs notice"
        return
    yield from (name for name, part in parts if part is None)


def _at_risk(figures: Figures) -> _Part:
    share = figures.at_risk_bytes / figures.memory_bytes
    words = f"{format_size(figures.at_risk_bytes)} at risk is {share:.0%} of {_MEMORY}"
    return _Part(AT_RISK_SHARE.label(share), words)


def _after_return(figures: Figures) -> _Part:
    if figures.after_return_s is None:
        rate = ASSUMED_RATE_BYTES_PER_S
        left_s = figures.at_risk_bytes / rate
        words = f"at {format_size(rate)}/s the bytes at risk take {format_seconds(left_s)} to write"
    else:
        left_s = figures.after_return_s
        words = f"data of the pull is not durable until {format_seconds(left_s)} after the return"
    return _Part(AFTER_RETURN_S.label(left_s), words)


def _ceiling(figures: Figures) -> _Part:
    share = figures.ceiling_bytes / figures.memory_bytes
    return _Part(CEILING_SHARE.label(share), f"a larger pull could make {share:.0%} of it dirty")


def _fsync(figures: Figures) -> _Part | None:
    return _wait("fsync", figures, lambda seen: seen.fsync)


def _read(figures: Figures) -> _Part | None:
    return _wait("read", figures, lambda seen: seen.read)


def _wait(
    name: str, figures: Figures, latency: Callable[[PriceSeen], Latency | None]
) -> _Part | None:
    seen = latency(figures.seen) if figures.seen else None
    if seen is None:
        return None
    present = latency(figures.present_seen) if figures.present_seen else None
    words = f"a neighbour's {name} took up to {format_seconds(seen.worst_s)}"
    label = WAIT_S.label(seen.worst_s)
    if label is Label.LOW and present is not None and _is_far_longer(seen, present):
        before = f" ({format_seconds(present.worst_s)} under the present settings)"
        return _Part(Label.MODERATE, words + before)
    return _Part(label, words)


def _is_far_longer(seen: Latency, present: Latency) -> bool:
    return seen.worst_s > max(WAIT_NOTICED_S, WAIT_FACTOR * present.worst_s)


def _pressure(figures: Figures) -> _Part | None:
    share = figures.seen.memory_pressure_share if figures.seen else None
    if share is None:
        return None
    return _Part(PRESSURE_SHARE.label(share), f"programs waited for memory {share:.1%} of the time")


def _lost(figures: Figures) -> _Part | None:
    lost_bytes = figures.seen.lost_bytes if figures.seen else None
    if lost_bytes is None:
        return None
    words = f"{format_size(lost_bytes)} of programs' memory were swapped out or read back"
    return _Part(LOST_SHARE.label(lost_bytes / figures.memory_bytes), words)


_MEMORY = "the memory that may be dirty"
_CRITERIA: tuple[_Criterion, ...] = (
    ("bytes at risk", _at_risk),
    ("time until durable", _after_return),
    ("ceiling", _ceiling),
    ("a neighbour's fsync", _fsync),
    ("a neighbour's reads", _read),
    ("memory pressure", _pressure),
    ("memory that programs lost", _lost),
)
