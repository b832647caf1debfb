"""From results to a recommendation: what to change, why, what it gains and what it risks.

The rule by which settings are judged and chosen is in `sysctl.advice.judgement`, the reasons for no
change in `sysctl.advice.cases`; `docs/advice.md` tells both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from contracts.shared.errors import UsageError
from contracts.shared.units import counted, format_seconds
from sysctl.advice.cases import (
    Case,
    CaseFinding,
    beyond_memory,
    longer_wait,
    no_difference,
    noise,
    nothing_measured,
    why_no_gain,
    writers_do_not_wait,
)
from sysctl.advice.exclusions import (
    Excluded,
    cost_of_limits,
    excluded_in_search,
    not_within,
    to_keep_limits,
)
from sysctl.advice.explain import (
    Reason,
    explain_device,
    explain_left_out,
    explain_mount,
    explain_sysctls,
    explain_transfer,
    share_text,
)
from sysctl.advice.judgement import Faster, Judged, judge, preferred_first
from sysctl.advice.tradeoff import TradeOff, trade_off
from sysctl.change.forms import Form, forms_of
from sysctl.evidence.comparison import (
    MIN_PAIRS,
    NEGLIGIBLE_SHARE,
    Comparison,
    Side,
    Verdict,
    dirtyable_bytes_of,
    is_gain,
    noise_of_pairs,
    paired_sides,
    pairs_of,
    side_of,
)
from sysctl.evidence.price import Limits, Price, limits_of, model_of, price_of
from sysctl.evidence.results import CANDIDATE, PRESENT, RECHECK, Results
from sysctl.evidence.statistics import Interval, Noise
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.vm import THRESHOLDS
from sysctl.search.finalists import search_times, times_of_candidates, within_limits

_ALSO = "Also measured in pairs: "
#: Below it a speed-up is shown with two decimals, so that a small one does not read as none.
_SMALL = 2.0
#: Above it only that it is more.
_MOST = 100
_UNFINISHED = (
    "the sweep is not finished: its best setting has no two pairs with the present ones yet; go on "
    "with `writewise sweep … --resume`, or with a larger --budget."
)


@dataclass(frozen=True)
class Recommendation:
    """`best` is None when no change is recommended; `verdict` says it in a sentence either way.

    `comparison` and `price` are of `best`, `present_price` of the present settings; `noise` is that
    of all runs of settings that were measured in pairs. `excluded` are faster settings beyond
    `limits`; `notes` are sentences that hold beside the verdict.
    """

    case: Case
    verdict: str
    present: Side
    present_price: Price
    trade_off: TradeOff
    results: Results
    noise: Noise
    best: Side | None = None
    comparison: Comparison | None = None
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    reasons: tuple[Reason, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def forms(self) -> tuple[Form, Form] | None:
        """The recommended thresholds as ratios and as bytes; None where none is recommended."""
        if self.best is None or not set(self.best.setting.values) & set(THRESHOLDS):
            return None
        values = replace_values(self.present.setting.values, self.best.setting.values)
        return forms_of(values, self.best.thresholds, dirtyable_bytes_of(self.results))

    @property
    def interval(self) -> Interval | None:
        """Of the recommended setting's time as a part of the present one's."""
        return self.comparison.interval if self.comparison else None

    @property
    def speedup(self) -> float:
        """How many times faster the recommended setting is, by the pairs; 1 without a change."""
        return 1 / self.interval.estimate if self.interval else 1.0


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
    judged = judge(results, limits_of(results) if limits is None else limits)
    return _change(results, judged) if judged.within else _none(results, present, judged)


def _why_none(results: Results, present: Side, judged: Judged) -> CaseFinding:
    """The case that explains best why nothing is recommended."""
    comparisons = list(judged.comparisons.values())
    if judged.excluded:
        why = not_within(results, judged.excluded, judged.limits)
        return CaseFinding(Case.NOT_WITHIN_LIMITS, why)
    return (
        writers_do_not_wait(results, present)
        or nothing_measured(results)
        or noise(results, comparisons)
        or _unfinished(results)
        or _only_beyond(results, judged.limits)
        or _present_beyond(results, judged.limits)
        or longer_wait(results, present)
        or beyond_memory(results, present.observation)
        or _uncredited(judged)
        or no_difference(results, present, comparisons)
    )


def _present_beyond(results: Results, limits: Limits) -> CaseFinding | None:
    """Nothing is faster, and the present settings are no answer to the limits either."""
    objection = limits.objection(_present_price(results))
    if not objection:
        return None
    sentence = (
        "nothing is faster within your limits, but the present settings are beyond them: "
        f"{objection}. {to_keep_limits(results, limits)}"
    )
    return CaseFinding(Case.PRESENT_BEYOND_LIMITS, sentence)


def _way_within(results: Results, limits: Limits) -> list[str]:
    """What keeps the limits, where the present settings do not."""
    is_beyond = limits.objection(_present_price(results))
    return [to_keep_limits(results, limits)] if is_beyond else []


def _present_price(results: Results) -> Price:
    return price_of(results, results.of_role(PRESENT)[0].setting, model_of(results))


def _uncredited(judged: Judged) -> CaseFinding | None:
    """What was faster for another reason than the settings."""
    told = list(_told_uncredited(judged))
    return CaseFinding(Case.NO_DIFFERENCE, " ".join(told)) if told else None


def _told_uncredited(judged: Judged) -> Iterator[str]:
    for setting, why in judged.uncredited.items():
        share = share_text(judged.comparisons[setting].interval)
        yield f"{setting} took {share}, {why}."


def _only_beyond(results: Results, limits: Limits) -> CaseFinding | None:
    """What the search found to be faster was not measured again, since it costs too much."""
    beyond = excluded_in_search(results, limits)
    if beyond is None:
        return None
    return CaseFinding(Case.NOT_WITHIN_LIMITS, not_within(results, [beyond], limits))


def _unfinished(results: Results) -> CaseFinding | None:
    """The search has not ended, or what it found worth measuring in pairs has too few of them."""
    rechecked = {trial.setting for trial in results.of_role(RECHECK)}
    if any(len(pairs_of(results, setting)) >= MIN_PAIRS for setting in rechecked):
        return None
    is_searched = results.of_role(CANDIDATE) or results.left_out
    if not rechecked and is_searched and not _has_gain(results):
        return None
    return CaseFinding(Case.UNFINISHED, _UNFINISHED)


def _has_gain(results: Results) -> bool:
    """Whether a candidate within the limits was faster in its one run by a gain worth having."""
    times_s, present_s = times_of_candidates(results), search_times(results)
    within = within_limits(results, times_s, limits_of(results))
    fastest_s = min((times_s[setting] for setting in within), default=math.inf)
    return bool(present_s) and is_gain(fastest_s / statistics.median(present_s))


def _none(results: Results, present: Side, judged: Judged) -> Recommendation:
    finding = _why_none(results, present, judged)
    others = [f"{_ALSO}{told}" for told in _told_uncredited(judged) if told not in finding.sentence]
    kept = [text for text in _way_within(results, judged.limits) if text not in finding.sentence]
    return Recommendation(
        case=finding.case,
        verdict=f"No change recommended: {finding.sentence}",
        present=present,
        present_price=_present_price(results),
        trade_off=trade_off(results, present),
        results=results,
        noise=noise_of_pairs(results),
        limits=judged.limits,
        excluded=judged.excluded,
        notes=(*others, *kept),
    )


def _change(results: Results, judged: Judged) -> Recommendation:
    near = preferred_first(results, judged.within)
    chosen = near[0]
    present, best = paired_sides(results, chosen.setting)
    reasons = (
        *explain_sysctls(results, present, best, chosen.comparison),
        *explain_device(results, best.setting),
        *explain_mount(results, best.setting),
        *explain_transfer(results, best.setting, chosen.comparison),
        *explain_left_out(results, best.setting),
    )
    return Recommendation(
        case=Case.CHANGE,
        verdict=_verdict(present, best, chosen.interval),
        present=present,
        present_price=_present_price(results),
        trade_off=trade_off(results, present, best),
        results=results,
        best=best,
        comparison=chosen.comparison,
        noise=noise_of_pairs(results),
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
    decimals = 2 if 1 / interval.high < _SMALL else 1
    estimate, least, most = (
        _speedup(ratio, decimals) for ratio in (interval.estimate, interval.high, interval.low)
    )
    return (
        f"{estimate} faster (95% interval {least} to {most}, {counted(interval.count, 'pair')}): "
        f"{format_seconds(best.return_s.median)} instead of "
        f"{format_seconds(present.return_s.median)}"
    )


def _speedup(ratio: float, decimals: int) -> str:
    return f"more than {_MOST}×" if 1 / ratio > _MOST else f"{1 / ratio:.{decimals}f}×"


def _passed_over(judged: Judged, chosen: Faster, near: Sequence[Faster]) -> Iterator[str]:
    """What else was measured in pairs, and why it is not recommended."""
    known = {chosen.setting, *(each.setting for each in judged.excluded)}
    for setting, comparison in judged.comparisons.items():
        interval = comparison.interval
        if setting not in known and interval and interval.count > 1:
            why = _why_passed_over(judged, chosen, near, setting)
            yield f"{_ALSO}{setting} took {share_text(interval)}, {why}."


def _why_passed_over(
    judged: Judged, chosen: Faster, near: Sequence[Faster], setting: Setting
) -> str:
    comparison = judged.comparisons[setting]
    if comparison.interval and comparison.verdict is not Verdict.FASTER:
        return why_no_gain(comparison.interval)
    if setting in judged.uncredited:
        return judged.uncredited[setting]
    if setting in {each.setting for each in near}:
        return "as fast, and no cheaper"
    fastest = min(judged.within, key=lambda each: each.interval.estimate)
    return "not as fast" + f" as {fastest.setting}" * (fastest is not chosen)


def _beyond_memory(results: Results, best: Side) -> Iterator[str]:
    """Why writers still wait."""
    rest = beyond_memory(results, best.observation)
    if rest and best.observation.throttled_share >= NEGLIGIBLE_SHARE:
        yield f"No thresholds gain more: {rest.sentence}"
