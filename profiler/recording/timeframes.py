# SPDX-License-Identifier: Apache-2.0
"""Cuts a profile into the contract's timeframes, judges each, and adds them up.

Frames are cut by `session.reset`, which loses no call, so they add up to the counts of a run
without frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Protocol, TypeVar

from contracts.evaluate import Finding, evaluate
from contracts.model import Contract
from contracts.shared.errors import UsageError
from contracts.shared.units import exact_latency
from contracts.stats import ResourceUsage, merge, merge_usage
from profiler.bpf.session import ProfileSnapshot

#: Reading the counters takes several ms, which would distort shorter frames.
SHORTEST_TIMEFRAME_NS = 100 * 10**6
#: How far a frame's length may differ from the timeframe and still be reported as the timeframe.
TOLERANCE = 0.01

Figures = TypeVar("Figures")


class Counters(Protocol):
    """The counters that frames are cut from: `profiler.bpf.session.ProfileSession`."""

    def snapshot(self) -> ProfileSnapshot:
        """Return the counts since the last reset."""

    def reset(self) -> ProfileSnapshot:
        """Return the counts since the last reset, and reset them."""


class Sampler(Protocol):
    """The source of a frame's usage: `profiler.watch.resources.ResourceSampler`."""

    def take(self) -> ResourceUsage:
        """Return the usage since the last call, or since the beginning."""


@dataclass(frozen=True)
class Frame:
    """One timeframe of a profile: its counts, and the contract's findings.

    `number` starts at 1, `start_ns` is relative to the profile's start, `ended_at` is local time.
    The length is `snapshot.elapsed_ns`. The last frame is shorter than the others.
    """

    number: int
    start_ns: int
    ended_at: datetime
    snapshot: ProfileSnapshot
    findings: tuple[Finding, ...]

    @property
    def leading(self) -> list[Finding]:
        """The violations; of similar rules only the one with the largest threshold."""
        return [each for each in self.findings if each.violated and not each.superseded]

    def length_ns(self, timeframe_ns: int) -> int:
        """Return `timeframe_ns` if the frame is that long within 1 %, else its own length."""
        elapsed_ns = self.snapshot.elapsed_ns
        is_whole = abs(elapsed_ns - timeframe_ns) <= TOLERANCE * timeframe_ns
        return timeframe_ns if is_whole else elapsed_ns


def check_timeframe(contract: Contract) -> None:
    """Raise UsageError for a contract whose timeframe is too short."""
    if contract.timeframe_ns < SHORTEST_TIMEFRAME_NS:
        message = f"the contract's timeframe of {exact_latency(contract.timeframe_ns)} is too short"
        shortest = exact_latency(SHORTEST_TIMEFRAME_NS)
        raise UsageError(message, f"use a timeframe of at least {shortest}")


class Timeframes:
    """Cuts frames from a session and passes each to the consumers, in order.

    Not safe for several threads at a time: the ticker calls `close`, and after its end `close` is
    called once more for the last frame.
    """

    def __init__(
        self,
        counters: Counters,
        contract: Contract,
        consumers: Iterable[Callable[[Frame], None]] = (),
        *,
        sampler: Sampler | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._counters = counters
        self._contract = contract
        self._consumers = tuple(consumers)
        self._sampler = sampler
        self._now = now
        self._total: ProfileSnapshot | None = None
        self.usage = ResourceUsage()
        self.count = 0

    def close(self) -> None:
        """End the current frame, judge it and pass it on; the next one begins."""
        snapshot = self._counters.reset()
        usage = self._sampler.take() if self._sampler else ResourceUsage()
        start_ns = self._total.elapsed_ns if self._total else 0
        self._total = self._with(snapshot)
        self.usage = merge_usage([self.usage, usage])
        self.count += 1
        findings = evaluate(self._contract, snapshot.stats, usage)
        frame = Frame(self.count, start_ns, self._now(), snapshot, findings)
        for consume in self._consumers:
            consume(frame)

    def so_far(self) -> ProfileSnapshot:
        """Return everything counted since the beginning, including the current frame."""
        return self._with(self._counters.snapshot())

    @property
    def total(self) -> ProfileSnapshot:
        """The sum of all closed frames. Raises ValueError if there are none."""
        if self._total is None:
            raise ValueError("no frame has been closed")
        return self._total

    def _with(self, snapshot: ProfileSnapshot) -> ProfileSnapshot:
        return merge_snapshots([self._total, snapshot]) if self._total else snapshot


def merge_snapshots(parts: Sequence[ProfileSnapshot]) -> ProfileSnapshot:
    """Return the sum of successive snapshots of one session.

    Counts and times are added, extremes are those of all. `in_flight` is that of the last. A thread
    may have written in several, so `writers` is the largest number in any: a lower bound.
    """
    last = parts[-1]
    return replace(
        last,
        stats=tuple(merge(calls) for calls in zip(*(part.stats for part in parts))),
        losses=_merged([part.losses for part in parts]),
        stall=_merged([part.stall for part in parts]),
        elapsed_ns=sum(part.elapsed_ns for part in parts),
        writers=max(part.writers for part in parts),
    )


def _merged(parts: Sequence[Figures]) -> Figures:
    """Merge dataclasses field by field: fields named `…_max_…` by maximum, others by sum."""
    names = [item.name for item in fields(parts[0])]  # type: ignore[arg-type]
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    figures = {
        name: max(column) if "_max_" in name else sum(column) for name, column in columns.items()
    }
    return type(parts[0])(**figures)
