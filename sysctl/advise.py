"""From results to a recommendation: what to change, why, what it gains and what it risks.

The rule, so that it can be argued with (`docs/advice.md`):

1. A setting counts only if it was measured again in pairs with the present settings, the 95 %
   interval of its ratio excludes 1, and its gain is above the noise floor (`sysctl.evidence`) and
   above `MIN_GAIN`.
2. One that costs more than the limits allow is out of the question. A time to durable that nobody
   waited for is judged by the model's prediction.
3. The fastest of the rest, and those that cannot be told from it: their intervals overlap, and
   they are at most `NEAR_BEST` or the noise floor slower.
4. The cheapest of these is recommended (`sysctl.price`): speed that cannot be told apart is not
   paid for in risk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
from sysctl.exclusions import Excluded, cost_of_limits, excluded_in_search, not_within
from sysctl.explain import Reason, explain_device, explain_mounts, explain_sysctls, share_text
from sysctl.forms import Form, forms_of
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs_tried import is_worth_its_knobs
from sysctl.mounts_tried import is_worth_its_mount
from sysctl.price import Limits, Price, cheapest, limits_of, model_of, price_of
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
class Recommendation:
    """`best` is None when no change is recommended; `verdict` says it in a sentence either way.

    `comparison` and `price` are of `best`, `present_price` of the present settings; `noise_floor`
    is a part of the time (`sysctl.evidence`). `excluded` are
    faster settings beyond `limits`; `notes` are sentences that hold beside the verdict.
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
    limits: Limits = field(default_factory=Limits)
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


@dataclass(frozen=True)
class _Judged:
    """What was measured again: the faster ones `within` the limits, and those they exclude."""

    comparisons: Mapping[Setting, Comparison]
    within: Sequence[_Faster]
    excluded: tuple[Excluded, ...]
    limits: Limits


def advise(results: Results, limits: Limits | None = None) -> Recommendation:
    """Recommend a change, or none; the limits are those of the sweep if none are given.

    Raises UsageError when there is nothing to compare.
    """
    present = side_of(results, results.of_role(PRESENT))
    if present is None:
        raise UsageError(
            "the results hold no valid run of the present settings, so nothing can be compared",
            "run the sweep again, or go on with --resume",
        )
    judged = _judge(results, limits_of(results) if limits is None else limits)
    return (_change if judged.within else _none)(results, present, judged)


def _judge(results: Results, limits: Limits) -> _Judged:
    """Rules 1 and 2."""
    rechecked = dict.fromkeys(trial.setting for trial in results.of_role(RECHECK))
    comparisons = {setting: compare(results, setting) for setting in rechecked}
    faster = _faster(results, comparisons)
    objections = [(each, limits.objection(each.price)) for each in faster]
    excluded = [
        Excluded(each.setting, why, each.interval.estimate, each.interval.count)
        for each, why in objections
        if why
    ]
    within = [each for each, why in objections if not why]
    return _Judged(comparisons, within, tuple(excluded), limits)


def _faster(results: Results, comparisons: Mapping[Setting, Comparison]) -> list[_Faster]:
    """Rule 1; those whose mount options or other knobs do nothing only where no others are left."""
    model = model_of(results)
    faster = [
        _Faster(setting, comparison, comparison.interval, price_of(results, setting, model))
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
    return proven or faster


def _near_the_fastest(faster: Sequence[_Faster]) -> list[_Faster]:
    """Rule 3."""
    fastest = min(faster, key=lambda each: each.interval.estimate)
    reach = fastest.interval.estimate * (1 + max(NEAR_BEST, fastest.comparison.noise_floor))
    return [
        each
        for each in faster
        if each.interval.low <= fastest.interval.high and each.interval.estimate <= reach
    ]


def _choose(results: Results, near: Sequence[_Faster]) -> _Faster:
    """Rule 4, by what was measured of the prices alone."""
    kept = cheapest({each.setting: price_of(results, each.setting) for each in near})
    left = [each for each in near if each.setting in kept]
    return min(left, key=lambda each: each.interval.estimate)


def _why_none(results: Results, present: Side, judged: _Judged) -> Finding:
    """The case that explains best why nothing is recommended."""
    comparisons = list(judged.comparisons.values())
    if judged.excluded:
        why = not_within(results, judged.excluded, judged.limits)
        return Finding(Case.NOT_WITHIN_LIMITS, why)
    if present.return_s.count < MIN_PRESENT_RUNS:
        return Finding(Case.UNFINISHED, _UNFINISHED)
    return (
        writers_do_not_wait(results, present)
        or nothing_measured(results)
        or noise(results, comparisons)
        or _unfinished(results, comparisons)
        or _only_beyond(results, judged.limits)
        or beyond_memory(results, present.observation)
        or no_difference(results, present, comparisons)
    )


def _only_beyond(results: Results, limits: Limits) -> Finding | None:
    """What the search found to be faster was not measured again, since it costs too much."""
    beyond = excluded_in_search(results, limits)
    if beyond is None:
        return None
    return Finding(Case.NOT_WITHIN_LIMITS, not_within(results, [beyond], limits))


def _unfinished(results: Results, comparisons: Sequence[Comparison]) -> Finding | None:
    """The search has not begun, or what it found worth measuring again was not, twice at least."""
    is_told = any(each.verdict is not Verdict.UNKNOWN for each in comparisons)
    is_searched = bool(results.of_role(CANDIDATE))
    if is_searched and (is_told or not finalists(results)):
        return None
    return Finding(Case.UNFINISHED, _UNFINISHED)


def _none(results: Results, present: Side, judged: _Judged) -> Recommendation:
    finding = _why_none(results, present, judged)
    return Recommendation(
        case=finding.case,
        verdict=f"No change recommended: {finding.sentence}",
        present=present,
        present_price=price_of(results, present.setting, model_of(results)),
        trade_off=trade_off(results, None),
        results=results,
        noise_floor=noise_floor_of(results),
        limits=judged.limits,
        excluded=judged.excluded,
    )


def _change(results: Results, present: Side, judged: _Judged) -> Recommendation:
    near = _near_the_fastest(judged.within)
    chosen = _choose(results, near)
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
        present_price=price_of(results, present.setting, model_of(results)),
        trade_off=trade_off(results, chosen.setting),
        results=results,
        best=best,
        comparison=chosen.comparison,
        noise_floor=chosen.comparison.noise_floor,
        limits=judged.limits,
        price=chosen.price,
        reasons=reasons,
        excluded=judged.excluded,
        notes=(
            *_passed_over(judged, chosen, near),
            *cost_of_limits(results, judged.limits, judged.excluded, chosen.interval.estimate),
            *_beyond_memory(results, best),
        ),
    )


def _verdict(present: Side, best: Side, interval: Interval) -> str:
    """`5.4× faster (95% interval 5.1× to 5.7×, 4 pairs): 3.60 s instead of 19.5 s`."""
    return (
        f"{1 / interval.estimate:.1f}× faster (95% interval {1 / interval.high:.1f}× to "
        f"{1 / interval.low:.1f}×, {counted(interval.count, 'pair')}): "
        f"{format_seconds(best.return_s.median)} instead of "
        f"{format_seconds(present.return_s.median)}"
    )


def _passed_over(judged: _Judged, chosen: _Faster, near: Sequence[_Faster]) -> Iterator[str]:
    """What else was measured in pairs, and why it is not recommended."""
    known = {chosen.setting, *(each.setting for each in judged.excluded)}
    as_fast = {each.setting for each in near}
    for setting, comparison in judged.comparisons.items():
        interval = comparison.interval
        if setting not in known and interval and interval.count > 1:
            why = "as fast, and no cheaper" if setting in as_fast else "not as fast"
            yield f"Also measured in pairs: {setting} took {share_text(interval)}, {why}."


def _beyond_memory(results: Results, best: Side) -> Iterator[str]:
    """Why writers still wait."""
    rest = beyond_memory(results, best.observation)
    if rest and best.observation.stall_share >= NO_STALL:
        yield f"More is not to be had: {rest.sentence}"
