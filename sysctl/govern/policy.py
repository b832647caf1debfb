# SPDX-License-Identifier: Apache-2.0
"""The governor's decisions, from samples alone: rest, raise, follow the burst, lower, yield.

It raises when a burst onto the named volumes is about to reach freerun, where the kernel would make
its writers wait. It lowers when the burst is drained or too long, under memory pressure, and when
the volumes are gone. It yields for good when another program has changed a threshold.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.govern.bounds import (
    Raise,
    RaiseLimits,
    background_for,
    highest_raise,
    kept_bytes,
    rest_thresholds,
)
from sysctl.govern.bursts import BEGIN_BYTES_PER_S, CALM_BYTES_PER_S, MIB, Burst, BurstAccount
from sysctl.govern.groups import GroupMemory
from sysctl.govern.samples import (
    NS_PER_S,
    HostSample,
    Recent,
    arrived_bytes,
    dirtied_between,
    rate_per_s,
    written_bytes,
)
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs.writeback import Thresholds

_MS = 10**6
#: A decision must hold until the next two samples, and this much longer.
_LEAD_POLLS, _LEAD_NS = 2, 100 * _MS
_RATE_SPAN_NS = 200 * _MS
_CALM_NS = 500 * _MS
#: The device is busy while this time's writes are in flight: then the flusher is woken in time, by
#: a writer, or if none writes, by its timer (vm.dirty_writeback_centisecs, by default 5 s).
_IN_FLIGHT_S, _FLUSHER_PERIOD_S = 0.5, 5.0
#: An unraised burst is over after this long in which little (a log) or nothing arrives.
_FORGOTTEN_NS = 2 * NS_PER_S
#: Writers that their group's limit makes wait may write nothing for some seconds within a burst.
_LONGEST_WAIT_NS = 10 * NS_PER_S
#: A raise ends when so many times what may arrive would not reach the mark that begins one.
_BEGIN_MARGINS, _END_MARGINS = 1.0, 1.5
#: The named volumes must hold this share of freerun at rest, but not more than the size.
_LEAST_SHARE, _LEAST_BYTES = 0.10, 16 * MIB
#: A volume is drained when it holds less.
_DRAINED_BYTES = 4 * MIB
#: Memory pressure: shares of the time in which some task, or all, waited for memory.
_PRESSURE_SPAN_NS = 500 * _MS
_MOST_SOME, _MOST_FULL = 0.10, 0.05
#: The least share of dirtyable memory that must be available and clean.
_LEAST_CLEAN_SHARE = 0.05
#: After memory pressure nothing is raised for this long.
_HOLD_OFF_NS = 5 * NS_PER_S


class Why(enum.Enum):
    """Why the thresholds are raised, or at rest."""

    CALM = "no burst"
    BURST = "a burst"
    DRAINED = "drained"
    TOO_LONG = "longer than --max-raise"
    PRESSURE = "memory pressure"
    GROUP_LIMIT = "the control group's own limit makes its writers wait"
    LESS_MEMORY = "less memory than the bound needs"
    HIGH_AT_REST = "the host's own thresholds allow more now"
    GONE = "the volume is gone"
    CHANGED = "another program changed a threshold"
    ENDED = "the governor ended"


@dataclass(frozen=True)
class Foreign:
    """A threshold that another program changed: what was expected and what is in force."""

    expected: Mapping[str, int]
    found: Mapping[str, int]


@dataclass(frozen=True)
class Unhelped:
    """A burst that no raise would help: its control group's own limit makes its writers wait."""

    path: str
    began_ns: int


@dataclass(frozen=True)
class Decision:
    """What is to be in force now. `raised` None means the host's own values.

    `background_bytes` None means the host's own background threshold. `finished` is the account of
    a burst that has just ended, and `unhelped` a burst for which nothing is raised, each reported
    once. After `foreign` there is nothing more to decide.
    """

    why: Why
    raised: Raise | None = None
    background_bytes: int | None = None
    finished: BurstAccount | None = None
    foreign: Foreign | None = None
    unhelped: Unhelped | None = None


@dataclass(frozen=True)
class _InForce:
    """A raise, since when, its margin, and its background threshold (None: the host's own)."""

    raised: Raise
    since_ns: int
    margin_bytes: float = 0.0
    background_bytes: int | None = None


class Governor:
    """Decides at each sample. `rest` are the host's own values: of each pair the non-zero member.

    With `is_dry` nothing is raised, so the samples show the host at rest throughout.
    """

    def __init__(
        self, limits: RaiseLimits, rest: Mapping[str, int], *, is_dry: bool = False
    ) -> None:
        self._limits, self._rest, self._is_dry = limits, dict(rest), is_dry
        self._recent = Recent(NS_PER_S)
        self._burst: Burst | None = None
        self._raise: _InForce | None = None
        self._last_arrival_ns = self._last_burst_ns = 0
        self._before_burst_bytes = 0
        self._undrained_bytes = 0
        self._below_since_ns: int | None = None
        self._not_before_ns = 0
        self._is_exhausted = False
        self._last: HostSample | None = None

    def step(self, sample: HostSample) -> Decision:
        """Return what is to be in force from this sample until the next."""
        self._recent.add(sample)
        foreign = self._foreign(sample)
        at_rest = rest_thresholds(sample, self._rest)
        self._follow(sample, at_rest)
        self._last = sample
        if foreign:
            return self._lower(sample, at_rest, Why.CHANGED, foreign)
        if self._raise:
            why = self._reason_to_lower(self._raise, sample, at_rest)
            if why:
                return self._lower(sample, at_rest, why)
            return self._adjust(self._raise, sample, at_rest)
        return self._begin(sample, at_rest)

    def end(self) -> BurstAccount | None:
        """Return the account of a burst that is raised when the governor ends."""
        if self._last is None or self._raise is None:
            return None
        at_rest = rest_thresholds(self._last, self._rest)
        return self._lower(self._last, at_rest, Why.ENDED).finished

    def _begin(self, sample: HostSample, at_rest: Thresholds) -> Decision:
        """Raise if writers of a burst are about to wait, and a raise would help them."""
        burst = self._burst
        if burst is None or not self._is_allowed(sample):
            return Decision(Why.CALM)
        highest = highest_raise(self._limits, sample, at_rest, self._rest)
        if highest is None:
            return Decision(Why.CALM)
        group = self._limiting_group(sample, highest)
        if group and burst.arrived_bytes >= _least_bytes(at_rest):
            unhelped = None if burst.is_unhelped else Unhelped(group.path, burst.began_ns)
            burst.is_unhelped = True
            return Decision(Why.GROUP_LIMIT, unhelped=unhelped)
        if self._has_pressure(sample) or not self._is_coming(burst, sample, at_rest):
            return Decision(Why.CALM)
        burst.raised_at_ns = sample.time_ns
        self._below_since_ns = None
        return self._adjust(_InForce(highest, sample.time_ns), sample, at_rest)

    # --- what is seen -----------------------------------------------------------------------

    def _follow(self, sample: HostSample, at_rest: Thresholds) -> None:
        """Begin, continue or forget the burst."""
        pair = self._recent.latest_pair()
        if pair is None:
            return
        span = self._recent.pair(_RATE_SPAN_NS)
        rate = rate_per_s(arrived_bytes(*span), span)
        is_arriving = rate_per_s(arrived_bytes(*pair), pair) >= CALM_BYTES_PER_S
        if is_arriving:
            self._last_arrival_ns = sample.time_ns
            self._undrained_bytes = sample.named_held_bytes
        else:
            self._undrained_bytes = max(0, self._undrained_bytes - written_bytes(*pair))
        if self._burst is None and rate >= BEGIN_BYTES_PER_S:
            self._burst = Burst(pair[0], self._before_burst_bytes)
        if self._burst:
            self._burst.add(*pair)
        self._before_burst_bytes = arrived_bytes(*pair) if is_arriving and not self._burst else 0
        is_held = sample.held_bytes > _mark_bytes(at_rest)  # then its writers may all be asleep
        if rate >= BEGIN_BYTES_PER_S or is_held:
            self._last_burst_ns = sample.time_ns
        if self._is_over(sample):
            self._burst, self._is_exhausted = None, self._is_exhausted and is_held

    def _is_over(self, sample: HostSample) -> bool:
        """Return whether a burst that is not raised has ended."""
        is_unhelped = self._burst is not None and self._burst.is_unhelped
        longest_ns = _LONGEST_WAIT_NS if is_unhelped else _FORGOTTEN_NS
        last_ns = min(self._last_arrival_ns, self._last_burst_ns)
        return not self._raise and sample.time_ns - last_ns > longest_ns

    def _foreign(self, sample: HostSample) -> Foreign | None:
        expected = dict(self._rest)
        if self._raise and not self._is_dry:
            expected = _with(expected, DIRTY_PAIR, self._raise.raised.dirty_bytes)
            if self._raise.background_bytes is not None:
                expected = _with(expected, BACKGROUND_PAIR, self._raise.background_bytes)
        found = dict(sample.values)
        if found == expected:
            return None
        differing = {name for name in (*expected, *found) if expected.get(name) != found.get(name)}
        return Foreign(_only(expected, differing), _only(found, differing))

    def _margin_bytes(self, sample: HostSample) -> float:
        """Return what may arrive until a decision made at the next samples has an effect.

        What others dirty on the named volumes takes room too, so it counts.
        """
        pair, span = self._recent.latest_pair(), self._recent.pair(_RATE_SPAN_NS)
        if pair is None:
            return 0.0
        rates = [rate_per_s(_dirtied_bytes(*each), each) for each in (pair, span)]
        growth = rate_per_s(sample.held_bytes - span[0].held_bytes, span)
        lead_ns = _LEAD_POLLS * (pair[1].time_ns - pair[0].time_ns) + _LEAD_NS
        return max(*rates, growth) * min(lead_ns, NS_PER_S) / NS_PER_S

    def _is_arriving(self, sample: HostSample) -> bool:
        return sample.time_ns - self._last_arrival_ns <= _RATE_SPAN_NS

    def _is_device_busy(self, sample: HostSample) -> bool:
        """Return whether the named volumes have enough in flight until the flusher is woken.

        A device that has completed nothing in the last second has no rate, but is busy.
        """
        span = self._recent.pair(NS_PER_S)
        device_per_s = rate_per_s(written_bytes(*span), span)
        needed_s = _IN_FLIGHT_S + (0.0 if self._is_arriving(sample) else _FLUSHER_PERIOD_S)
        return sample.named_writeback_bytes > device_per_s * needed_s

    def _is_allowed(self, sample: HostSample) -> bool:
        """Return whether data arrives for which a raise may begin now."""
        if self._is_exhausted or sample.time_ns < self._not_before_ns:
            return False
        return self._is_arriving(sample) and any(sample.volumes)

    def _is_coming(self, burst: Burst, sample: HostSample, at_rest: Thresholds) -> bool:
        """Return whether writers of a burst onto the named volumes are about to wait."""
        least = _least_bytes(at_rest)
        soon_bytes = sample.held_bytes + self._margin_bytes(sample) * _BEGIN_MARGINS
        if sample.held_bytes > at_rest.freerun_bytes:  # others' pages: our writers wait already
            return burst.arrived_bytes >= least
        own_bytes = sample.named_held_bytes
        if sample.admitted_bytes is not None:
            own_bytes = min(own_bytes, burst.arrived_bytes)
        return soon_bytes >= _mark_bytes(at_rest) and own_bytes >= least

    def _has_pressure(self, sample: HostSample) -> bool:
        clean_bytes = sample.available_bytes - sample.held_bytes
        if clean_bytes < _LEAST_CLEAN_SHARE * sample.dirtyable_bytes:
            return True
        if any(group.is_short(_LEAST_CLEAN_SHARE) for group in sample.groups):
            return True
        span = self._recent.pair(_PRESSURE_SPAN_NS)
        first, last = span
        totals = [(first.memory_some_ns, last.memory_some_ns, _MOST_SOME)]
        totals += [(first.memory_full_ns, last.memory_full_ns, _MOST_FULL)]
        before = {(group.path, group.identity): group for group in first.groups}
        for group in last.groups:
            earlier = before.get((group.path, group.identity), group)
            totals += [(earlier.some_ns, group.some_ns, _MOST_SOME)]
            totals += [(earlier.full_ns, group.full_ns, _MOST_FULL)]
        return any(
            None not in (one, other)
            and rate_per_s((other or 0) - (one or 0), span) / NS_PER_S > most
            for one, other, most in totals
        )

    def _held_bytes(self, sample: HostSample) -> int:
        """Return what the named volumes hold, of admitted writers at most.

        With others on them: what they held at the last arrival, less what was written since.
        """
        if sample.admitted_bytes is None:
            return sample.named_held_bytes
        return min(sample.named_held_bytes, self._undrained_bytes)

    def _limiting_group(self, sample: HostSample, raised: Raise) -> GroupMemory | None:
        """Return the group of the burst if its own limit makes its writers wait, raised or not."""
        writer = self._burst.writer if self._burst else None
        group = next((each for each in sample.groups if each.path == writer), None)
        if group is None:
            return None
        values = {
            DIRTY_PAIR[1]: raised.dirty_bytes,
            BACKGROUND_PAIR[1]: raised.highest.background_bytes,
        }
        room = group.room_bytes(values, sample.dirtyable_bytes, sample.held_bytes)
        is_limiting = room is not None and room <= self._margin_bytes(sample)
        return group if is_limiting else None

    # --- what follows -----------------------------------------------------------------------

    def _adjust(self, present: _InForce, sample: HostSample, at_rest: Thresholds) -> Decision:
        """Return the raise with the background threshold of this moment.

        A burst that pauses continues as fast as before, so while the device is busy, the margin is
        the greatest of this raise.
        """
        margin_bytes, is_busy = self._margin_bytes(sample), self._is_device_busy(sample)
        greatest_bytes = max(present.margin_bytes, margin_bytes)
        if not self._is_arriving(sample) and not sample.named_writeback_bytes:
            background = present.raised.lowest_background  # the timer starts the flusher for all
        else:
            background = background_for(
                present.raised,
                at_rest,
                sample,
                greatest_bytes if is_busy else margin_bytes,
                is_device_busy=is_busy,
            )
        self._raise = _InForce(present.raised, present.since_ns, greatest_bytes, background)
        return Decision(Why.BURST, present.raised, background)

    def _reason_to_lower(
        self, present: _InForce, sample: HostSample, at_rest: Thresholds
    ) -> Why | None:
        if not any(sample.volumes):
            return Why.GONE
        if self._has_pressure(sample):
            return Why.PRESSURE
        dirty = present.raised.dirty_bytes
        if dirty < at_rest.dirty_bytes:
            return Why.HIGH_AT_REST
        if dirty > kept_bytes(self._limits, sample):
            return Why.LESS_MEMORY
        if sample.time_ns - present.since_ns >= self._limits.max_raise_ns:
            return Why.TOO_LONG
        return Why.DRAINED if self._is_drained(sample, at_rest) else None

    def _is_drained(self, sample: HostSample, at_rest: Thresholds) -> bool:
        """Return whether nobody would wait at rest, or the burst holds nothing any more."""
        is_calm = sample.time_ns - self._last_arrival_ns >= _CALM_NS
        if is_calm and self._held_bytes(sample) <= _DRAINED_BYTES:
            return True
        soon_bytes = sample.held_bytes + self._margin_bytes(sample) * _END_MARGINS
        if soon_bytes > _mark_bytes(at_rest):
            self._below_since_ns = None
            return False
        if self._below_since_ns is None:
            self._below_since_ns = sample.time_ns
        return sample.time_ns - self._below_since_ns >= _CALM_NS

    def _lower(
        self, sample: HostSample, at_rest: Thresholds, why: Why, foreign: Foreign | None = None
    ) -> Decision:
        """Return to rest; what was raised is accounted for."""
        account = None
        if self._raise and self._burst:
            raised_ns = sample.time_ns - self._raise.since_ns
            account = self._burst.account(
                at_rest, self._raise.raised, raised_ns, why.value, is_dry=self._is_dry
            )
        if why in (Why.PRESSURE, Why.LESS_MEMORY):
            self._not_before_ns = sample.time_ns + _HOLD_OFF_NS
        self._is_exhausted = why is Why.TOO_LONG
        self._raise = self._burst = None
        return Decision(why, finished=account, foreign=foreign)


def _mark_bytes(at_rest: Thresholds) -> float:
    """Return the dirty bytes halfway between where write-back begins and where writers may wait.

    A stream that is slower than its device stays near the first, and raises nothing.
    """
    return (at_rest.background_bytes + at_rest.freerun_bytes) / 2


def _least_bytes(at_rest: Thresholds) -> float:
    """Return what a burst must have for a raise."""
    return min(_LEAST_BYTES, _LEAST_SHARE * at_rest.freerun_bytes)


def _dirtied_bytes(before: HostSample, after: HostSample) -> int:
    """Return what all writers dirtied on the named volumes."""
    return sum(dirtied_between(before.volumes, after.volumes))


def _with(values: Mapping[str, int], pair: tuple[str, str], size_bytes: int) -> dict[str, int]:
    return {**{n: v for n, v in values.items() if n not in pair}, pair[1]: size_bytes}


def _only(values: Mapping[str, int], names: set[str]) -> dict[str, int]:
    return {name: value for name, value in values.items() if name in names}
