"""Which settings count, and which of them is recommended.

The rule, so that it can be argued with (`docs/advice.md`):

1. A setting counts if its pairs with the present settings show a gain of `MIN_GAIN` or more and an
   interval that excludes 1, at an error that allows for the looks at the pairs and for the number
   of settings compared (`sysctl.evidence.comparison`), and if what it changes took part: extras
   are credited by pairs of their own (`sysctl.search.extras`), thresholds only where writers
   waited.
2. One that costs more than the limits allow is excluded.
3. The fastest of the rest, and those that are as good by their direct pairs with it: at most
   `AS_GOOD` slower, or not shown to be slower and at most `MAYBE_AS_GOOD`.
4. The cheapest of these is recommended (`sysctl.evidence.price`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysctl.advice.exclusions import Excluded
from sysctl.evidence.comparison import (
    NEGLIGIBLE_SHARE,
    Comparison,
    Verdict,
    compare,
    error_of_each,
    pairs_of,
    present_stall_share,
)
from sysctl.evidence.differences import changed_beside_thresholds
from sysctl.evidence.price import Limits, Price, cheapest, model_of, price_of
from sysctl.evidence.results import RECHECK, Results
from sysctl.evidence.statistics import Interval
from sysctl.knobs.setting import Setting
from sysctl.search.extras import why_uncredited

#: Slower than the fastest by no more is as good.
AS_GOOD = 0.05
#: So is this, if the pairs do not show that it is slower.
MAYBE_AS_GOOD = 0.10


@dataclass(frozen=True)
class Faster:
    """A setting that the pairs show to be faster, with its interval and its price."""

    setting: Setting
    comparison: Comparison
    interval: Interval
    price: Price


@dataclass(frozen=True)
class Judged:
    """What was measured again: the faster ones `within` the limits, and those they exclude.

    `uncredited` are faster ones whose gain is not their doing, each with why.
    """

    comparisons: Mapping[Setting, Comparison]
    within: Sequence[Faster]
    excluded: tuple[Excluded, ...]
    limits: Limits
    uncredited: Mapping[Setting, str]


def judge(results: Results, limits: Limits) -> Judged:
    """Apply rules 1 and 2."""
    rechecked = dict.fromkeys(trial.setting for trial in results.of_role(RECHECK))
    compared = [setting for setting in rechecked if pairs_of(results, setting)]
    error = error_of_each(len(compared))
    comparisons = {setting: compare(results, setting, error=error) for setting in compared}
    model = model_of(results)
    gains = [
        Faster(setting, comparison, comparison.interval, price_of(results, setting, model))
        for setting, comparison in comparisons.items()
        if comparison.verdict is Verdict.FASTER and comparison.interval
    ]
    why = {each.setting: _why_uncredited(results, each.setting) for each in gains}
    faster = [each for each in gains if not why[each.setting]]
    objections = {each.setting: limits.objection(each.price) for each in faster}
    excluded = [
        Excluded(
            each.setting, objections[each.setting], each.interval.estimate, each.interval.count
        )
        for each in faster
        if objections[each.setting]
    ]
    within = [each for each in faster if not objections[each.setting]]
    uncredited = {setting: reason for setting, reason in why.items() if reason}
    return Judged(comparisons, within, tuple(excluded), limits, uncredited)


def _why_uncredited(results: Results, setting: Setting) -> str:
    """Why a gain is not the setting's doing; empty where it is."""
    share = present_stall_share(results)
    if share < NEGLIGIBLE_SHARE and not changed_beside_thresholds(results, setting):
        return (
            "but nothing that it changes took part: writers slept in dirty throttling for "
            f"{share:.1%} of their time"
        )
    return why_uncredited(results, setting)


def preferred_first(results: Results, faster: Sequence[Faster]) -> list[Faster]:
    """Apply rules 3 and 4: return what is recommended, then what is as good; none without any."""
    if not faster:
        return []
    near = near_the_fastest(results, faster)
    chosen = choose(results, near)
    return [chosen, *(each for each in near if each is not chosen)]


def near_the_fastest(results: Results, faster: Sequence[Faster]) -> list[Faster]:
    """Apply rule 3."""
    fastest = min(faster, key=lambda each: each.interval.estimate)
    return [each for each in faster if each is fastest or _is_as_good(results, each, fastest)]


def _is_as_good(results: Results, each: Faster, fastest: Faster) -> bool:
    """By the blocks in which both ran; by their ratios to the present settings without any."""
    interval = compare(results, each.setting, fastest.setting).interval
    if interval is None:
        return each.interval.estimate <= fastest.interval.estimate * (1 + AS_GOOD)
    limit = AS_GOOD if interval.low > 1 else MAYBE_AS_GOOD
    return interval.estimate <= 1 + limit


def choose(results: Results, near: Sequence[Faster]) -> Faster:
    """Apply rule 4, by what was measured of the prices alone."""
    kept = cheapest({each.setting: price_of(results, each.setting) for each in near})
    left = [each for each in near if each.setting in kept]
    return min(left, key=lambda each: each.interval.estimate)
