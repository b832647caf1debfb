"""From results to a recommendation: what to change, why, what it gains and what it risks.

The rule, so that it can be argued with (`docs/advice.md`):

1. A setting counts only if it was measured again in pairs with the present settings, the 95 %
   interval of its ratio excludes 1, and its gain is above the noise floor (`sysctl.evidence`) and
   above `MIN_GAIN`.
2. One that costs more than the limits allow is out of the question.
3. The fastest of the rest, and those that cannot be told from it: their intervals overlap, and
   they are at most `NEAR_BEST` or the noise floor slower.
4. The cheapest of these is recommended (`sysctl.price`): speed that cannot be told apart is not
   paid for in risk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contracts.errors import UsageError
from contracts.units import counted, format_seconds
from sysctl.cases import (
    NO_STALL,
    Case,
    Finding,
    beyond_memory,
    no_difference,
    noise,
    nothing_measured,
    writers_do_not_wait,
)
from sysctl.choice import MIN_GAIN, finalists
from sysctl.evidence import Comparison, Side, Verdict, compare, noise_floor_of, side_of
from sysctl.explain import Reason, explain_device, explain_mounts, explain_sysctls
from sysctl.forms import Form, forms_of
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs_tried import is_worth_its_knobs
from sysctl.mounts_tried import is_worth_its_mount
from sysctl.price import Limits, Price, cheapest, price_of
from sysctl.results import CANDIDATE, PRESENT, RECHECK, Results
from sysctl.setting import Setting, replace_values
from sysctl.statistics import Interval
from sysctl.tradeoff import TradeOff, trade_off

#: A setting that is slower by no more may be as fast, if its interval does not say otherwise.
NEAR_BEST = 0.05
MIN_PRESENT_RUNS = 2
_UNFINISHED = (
    "the sweep was not finished: its best setting was not measured again beside the present ones, "
    "two pairs at least; go on with `writewise sweep … --resume`, or with a larger --budget."
)


@dataclass(frozen=True)
class Excluded:
    """A faster setting that the limits exclude, why, and the share of the present time it took."""

    setting: Setting
    why: str
    ratio: float


@dataclass(frozen=True)
class Recommendation:
    """`best` is None when no change is recommended; `verdict` says it in a sentence either way.

    `comparison` and `price` are of `best`, `present_price` of the present settings; `noise_floor`
    is a part of the time (`sysctl.evidence`). `excluded` are
    faster settings beyond the limits; `notes` are sentences that hold beside the verdict.
    """

    case: Case
    verdict: str
    present: Side
    present_price: Price
    trade_off: TradeOff
    results: Results
    best: Side | None = None
    comparison: Comparison | None = None
    noise_floor: float = 0.0
    price: Price | None = None
    reasons: tuple[Reason, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def forms(self) -> tuple[Form, Form] | None:
        """The recommended thresholds as ratios and as bytes; None where none is recommended."""
        if self.best is None or not set(self.best.setting.values) & {*DIRTY_PAIR, *BACKGROUND_PAIR}:
            return None
        values = replace_values(self.present.setting.values, self.best.setting.values)
        return forms_of(values, self.best.thresholds, self.results.context["dirtyable_bytes"])

    @property
    def interval(self) -> Interval | None:
        """Of the recommended setting's time as a part of the present one's."""
        return self.comparison.interval if self.comparison else None

    @property
    def speedup(self) -> float:
        """How many times faster the recommended setting is, by the pairs; 1 without a change."""
        return 1 / self.interval.estimate if self.interval else 1.0


@dataclass(frozen=True)
class _Faster:
    """A setting that the pairs show to be faster, with its interval and its price."""

    setting: Setting
    comparison: Comparison
    interval: Interval
    price: Price


def advise(results: Results, limits: Limits | None = None) -> Recommendation:
    """Recommend a change, or none. Raises UsageError when there is nothing to compare."""
    present = side_of(results, results.of_role(PRESENT))
    if present is None:
        raise UsageError(
            "the results hold no valid run of the present settings, so nothing can be compared",
            "run the sweep again, or go on with --resume",
        )
    rechecked = dict.fromkeys(trial.setting for trial in results.of_role(RECHECK))
    comparisons = {setting: compare(results, setting) for setting in rechecked}
    allowed, excluded = _sort_out(results, comparisons, limits or Limits())
    if not allowed:
        finding = _why_none(
            results, present, list(comparisons.values()), excluded, limits or Limits()
        )
        return _none(results, present, finding, excluded)
    return _change(results, present, _choose(allowed), excluded)


def _sort_out(
    results: Results, comparisons: Mapping[Setting, Comparison], limits: Limits
) -> tuple[list[_Faster], tuple[Excluded, ...]]:
    """Rules 1 and 2: the settings that are faster, and those of them that cost too much."""
    faster = [
        _Faster(setting, comparison, comparison.interval, price_of(results, setting))
        for setting, comparison in comparisons.items()
        if comparison.verdict is Verdict.FASTER
        and comparison.interval
        and comparison.interval.estimate * (1 + MIN_GAIN) <= 1
    ]
    proven = [
        each
        for each in faster
        if is_worth_its_mount(results, each.setting) and is_worth_its_knobs(results, each.setting)
    ]
    objections = [(each, limits.objection(each.price)) for each in proven or faster]
    excluded = [
        Excluded(each.setting, why, each.interval.estimate) for each, why in objections if why
    ]
    return [each for each, why in objections if not why], tuple(excluded)


def _choose(faster: Sequence[_Faster]) -> _Faster:
    """Rules 3 and 4."""
    fastest = min(faster, key=lambda each: each.interval.estimate)
    reach = fastest.interval.estimate * (1 + max(NEAR_BEST, fastest.comparison.noise_floor))
    near = {
        each.setting: each.price
        for each in faster
        if each.interval.low <= fastest.interval.high and each.interval.estimate <= reach
    }
    kept = cheapest(near)
    left = [each for each in faster if each.setting in kept]
    return min(left, key=lambda each: each.interval.estimate)


def _why_none(
    results: Results,
    present: Side,
    comparisons: Sequence[Comparison],
    excluded: Sequence[Excluded],
    limits: Limits,
) -> Finding:
    """The case that explains best why nothing is recommended."""
    if excluded:
        return Finding(Case.NOT_WITHIN_LIMITS, _not_within(results, excluded, limits))
    if present.return_s.count < MIN_PRESENT_RUNS:
        return Finding(Case.UNFINISHED, _UNFINISHED)
    return (
        writers_do_not_wait(results, present)
        or nothing_measured(results)
        or noise(results, comparisons)
        or _unfinished(results, comparisons)
        or beyond_memory(results, present.observation)
        or no_difference(results, present, comparisons)
    )


def _unfinished(results: Results, comparisons: Sequence[Comparison]) -> Finding | None:
    """The search has not begun, or what it found worth measuring again was not, twice at least."""
    is_told = any(each.verdict is not Verdict.UNKNOWN for each in comparisons)
    is_searched = bool(results.of_role(CANDIDATE))
    if is_searched and (is_told or not finalists(results)):
        return None
    return Finding(Case.UNFINISHED, _UNFINISHED)


def _not_within(results: Results, excluded: Sequence[Excluded], limits: Limits) -> str:
    """What the limits exclude, and the best of the search that they do not."""
    sentence = f"every setting that is faster costs too much. {_exclusions(excluded)}"
    seen = [
        (trial.valid.return_s, trial.setting)
        for trial in results.of_role(CANDIDATE)
        if trial.valid and not limits.objection(price_of(results, trial.setting))
    ]
    if not seen:
        return sentence
    fastest_s, setting = min(seen, key=lambda pair: pair[0])
    return (
        f"{sentence} Of those that do not, {setting} was fastest, {format_seconds(fastest_s)} in "
        "one run: sweep its values alone to have it measured in pairs."
    )


def _exclusions(excluded: Sequence[Excluded]) -> str:
    """`dirty_ratio=80 would take 19 % of the present time: 1.70 GiB at risk, more than 1 GiB.`"""
    return " ".join(
        f"{each.setting} takes {each.ratio:.0%} of the present settings' time: {each.why}."
        for each in excluded
    )


def _none(
    results: Results, present: Side, finding: Finding, excluded: tuple[Excluded, ...]
) -> Recommendation:
    return Recommendation(
        case=finding.case,
        verdict=f"No change recommended: {finding.sentence}",
        present=present,
        present_price=price_of(results, present.setting),
        trade_off=trade_off(results, None),
        results=results,
        noise_floor=noise_floor_of(results),
        excluded=excluded,
    )


def _change(
    results: Results, present: Side, chosen: _Faster, excluded: tuple[Excluded, ...]
) -> Recommendation:
    trials = [trial for trial in results.trials if trial.setting == chosen.setting]
    best = side_of(results, [trial for trial in trials if trial.role == RECHECK])
    if best is None:
        raise AssertionError("a setting that was compared has valid runs")
    reasons = (
        *explain_sysctls(results, present, best, chosen.comparison),
        *explain_device(results, best.setting, chosen.comparison),
        *explain_mounts(results, chosen.setting),
    )
    return Recommendation(
        case=Case.CHANGE,
        verdict=_verdict(present, best, chosen.interval),
        present=present,
        present_price=price_of(results, present.setting),
        trade_off=trade_off(results, chosen.setting),
        results=results,
        best=best,
        comparison=chosen.comparison,
        noise_floor=chosen.comparison.noise_floor,
        price=chosen.price,
        reasons=reasons,
        excluded=excluded,
        notes=tuple(_notes(results, best, excluded)),
    )


def _verdict(present: Side, best: Side, interval: Interval) -> str:
    """`5.4× faster (95 % interval 5.1× to 5.7×, 4 pairs): 3.60 s instead of 19.5 s`."""
    return (
        f"{1 / interval.estimate:.1f}× faster (95 % interval {1 / interval.high:.1f}× to "
        f"{1 / interval.low:.1f}×, {counted(interval.count, 'pair')}): "
        f"{format_seconds(best.return_s.median)} instead of "
        f"{format_seconds(present.return_s.median)}"
    )


def _notes(results: Results, best: Side, excluded: Sequence[Excluded]) -> list[str]:
    """What remains to be said beside a recommended change."""
    notes = [f"Excluded by your limits: {_exclusions(excluded)}"] if excluded else []
    if best.observation.stall_share >= NO_STALL:
        rest = beyond_memory(results, best.observation)
        notes += [f"More is not to be had: {rest.sentence}"] if rest else []
    return notes
