# SPDX-License-Identifier: Apache-2.0
"""The recommendation: what to change, why, what it gains and what it risks.

The rule that selects a setting is in `sysctl.advice.analysis`, the reasons for no change in
`sysctl.advice.cases`; `docs/explanation/advice.md` describes both. The result is data, which
`profiler.report` words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sysctl.advice.analysis import Analysis, Faster, analyse
from sysctl.advice.cases import (
    beyond_memory,
    cost_of_limits,
    fastest_within,
    unattributed_gains,
    why_none,
)
from sysctl.advice.conclusions import (
    BeyondMemory,
    Case,
    Change,
    Conclusion,
    NoGain,
    Note,
    OnlyUnattributed,
    PassedOver,
    PresentBeyond,
    Sampled,
    UnattributedGain,
)
from sysctl.advice.reasons import Reason, reasons_for
from sysctl.advice.tradeoff import TradeOff, trade_off
from sysctl.advice.volume_advice import VolumeAdvice, advise_volume
from sysctl.change.forms import Form, forms_of
from sysctl.evidence.comparison import NEGLIGIBLE_SHARE, Comparison, Side, Verdict, paired_sides
from sysctl.evidence.price import Limits, Price, limits_of
from sysctl.evidence.results import PRICE, LeftOut, Results
from sysctl.evidence.runs import Runs
from sysctl.evidence.statistics import Interval
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import THRESHOLDS
from sysctl.volume.prices import Prices, us_east_1


@dataclass(frozen=True)
class Recommendation:
    """The outcome of a sweep. `best` is None if no change is recommended.

    `conclusion` is the outcome in either case. `present` are the current settings, with the runs
    that `best` is compared with, or all. `comparison` and `price` are of `best`; `notes` supplement
    the conclusion. `left_out` is what the sweep did not try.
    """

    analysis: Analysis
    conclusion: Conclusion
    present: Side
    trade_off: TradeOff
    left_out: tuple[LeftOut, ...]
    best: Side | None = None
    comparison: Comparison | None = None
    price: Price | None = None
    reasons: tuple[Reason, ...] = ()
    notes: tuple[Note, ...] = ()
    volume_prices: Prices = field(default_factory=us_east_1)

    @cached_property
    def volume(self) -> VolumeAdvice:
        """The advice on the volume."""
        found = (self.conclusion, *self.notes)
        beyond = next((each for each in found if isinstance(each, BeyondMemory)), None)
        return advise_volume(self.analysis, self.conclusion, self.best, beyond, self.volume_prices)

    @property
    def case(self) -> Case:
        """The outcome of the sweep as a name."""
        return self.conclusion.case

    @property
    def present_price(self) -> Price:
        """The price of the current settings."""
        return self.analysis.present_price

    @property
    def other_prices(self) -> list[tuple[Setting, Price]]:
        """The prices of the other settings that had a run with a neighbour."""
        shown = {side.setting for side in (self.present, self.best) if side}
        watched = (trial for trial in self.analysis.runs.of_role(PRICE) if trial.valid)
        others = dict.fromkeys(t.setting for t in watched if t.setting not in shown)
        return [(setting, self.analysis.prices[setting]) for setting in others]

    @property
    def forms(self) -> tuple[Form, Form] | None:
        """The recommended thresholds as ratios and as bytes; None if none are recommended."""
        if self.best is None or not set(self.best.setting.values) & set(THRESHOLDS):
            return None
        runs = self.analysis.runs
        values = runs.baseline.values_with(self.best.setting)
        return forms_of(values, self.best.thresholds, runs.dirtyable_bytes)

    @property
    def interval(self) -> Interval | None:
        """The interval of the recommended setting's time divided by the current one's."""
        return self.comparison.interval if self.comparison else None

    @property
    def speedup(self) -> float:
        """How many times faster the recommended setting is in the pairs; 1 without a change."""
        return 1 / self.interval.estimate if self.interval else 1.0


def advise(
    results: Results, limits: Limits | None = None, prices: Prices | None = None
) -> Recommendation:
    """Recommend a change, or none; the default limits are those of the sweep.

    `prices` are of volumes, by default those that are part of Writewise. Raises UsageError if there
    is nothing to compare.
    """
    asked = limits_of(results.circumstances) if limits is None else limits
    analysis = analyse(Runs.of(results), asked)
    left_out = tuple(results.left_out)
    found = _change(analysis, left_out) if analysis.within else _none(analysis, left_out)
    return found if prices is None else replace(found, volume_prices=prices)


def _none(analysis: Analysis, left_out: tuple[LeftOut, ...]) -> Recommendation:
    conclusion = why_none(analysis, has_left_out=bool(left_out))
    notes: list[Note] = []
    if not isinstance(conclusion, OnlyUnattributed):
        notes += unattributed_gains(analysis)
    is_beyond = analysis.limits.objection(analysis.present_price)
    if is_beyond and not isinstance(conclusion, PresentBeyond):
        notes.append(fastest_within(analysis))
    notes += _sampled(analysis, analysis.present)
    return Recommendation(
        analysis=analysis,
        conclusion=conclusion,
        present=analysis.present,
        trade_off=trade_off(analysis, analysis.present),
        left_out=left_out,
        notes=tuple(notes),
    )


def _change(analysis: Analysis, left_out: tuple[LeftOut, ...]) -> Recommendation:
    near = analysis.preferred_first(analysis.within)
    chosen = near[0]
    present, best = paired_sides(analysis.runs, chosen.setting)
    return Recommendation(
        analysis=analysis,
        conclusion=Change(chosen.interval, present.return_s.median, best.return_s.median),
        present=present,
        trade_off=trade_off(analysis, present, best),
        left_out=left_out,
        best=best,
        comparison=chosen.comparison,
        price=chosen.price,
        reasons=reasons_for(analysis, present, best, chosen.interval),
        notes=(*_notes(analysis, near, best), *_sampled(analysis, best)),
    )


def _notes(analysis: Analysis, near: Sequence[Faster], best: Side) -> Iterator[Note]:
    """Yield what else was measured in pairs, what the limits cost, and why writers still wait."""
    yield from _passed_over(analysis, near)
    cost = cost_of_limits(analysis, near[0].interval.estimate)
    if cost:
        yield cost
    rest = beyond_memory(analysis, best.observation)
    if rest:
        yield rest


def _sampled(analysis: Analysis, side: Side) -> list[Note]:
    """What a sample of the prefix may hide; nothing where all of it was pulled."""
    of_class = analysis.runs.circumstances.node_class
    if of_class.whole_bytes <= of_class.bytes:
        return []
    return [
        Sampled(
            pulled_objects=of_class.objects,
            pulled_bytes=of_class.bytes,
            whole_objects=of_class.whole_objects,
            whole_bytes=of_class.whole_bytes,
            freerun_bytes=side.thresholds.freerun_bytes,
            is_of_change=side is not analysis.present,
            have_waited=analysis.present.observation.throttled_share >= NEGLIGIBLE_SHARE,
        )
    ]


def _passed_over(
    analysis: Analysis, near: Sequence[Faster]
) -> Iterator[NoGain | UnattributedGain | PassedOver]:
    """Yield what else was measured in pairs, and why it is not recommended."""
    chosen, as_good = near[0].setting, {each.setting for each in near}
    fastest = min(analysis.within, key=lambda each: each.interval.estimate).setting
    known = {chosen, *(each.setting for each in analysis.excluded)}
    for setting, comparison in analysis.comparisons.items():
        interval = comparison.interval
        if setting in known or interval is None or interval.count < 2:
            continue
        if comparison.verdict is not Verdict.FASTER:
            yield NoGain(setting, interval)
        elif setting in analysis.unattributed:
            yield UnattributedGain(setting, interval, analysis.unattributed[setting])
        elif setting in as_good:
            yield PassedOver(setting, interval, is_as_fast=True)
        else:
            yield PassedOver(setting, interval, faster=None if fastest == chosen else fastest)
