"""Which settings measured again count, and which of them is to be recommended.

The rule, so that it can be argued with (`docs/advice.md`):

1. A setting counts only if it was measured again in pairs with the present settings, the 95 %
   interval of its ratio excludes 1, its gain is above the noise floor (`sysctl.evidence`) and above
   `MIN_GAIN`, and something that it changes took part in the pull (`sysctl.uncredited`).
2. One that costs more than the limits allow is out of the question. A time to durable that nobody
   waited for is judged by the model's prediction.
3. The fastest of the rest, and those that cannot be told from it: their intervals overlap, and
   they are at most `NEAR_BEST` or the noise floor slower.
4. The cheapest of these is recommended (`sysctl.price`): speed that cannot be told apart is not
   paid for in risk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysctl.choice import MIN_GAIN
from sysctl.evidence import Comparison, Verdict, compare
from sysctl.exclusions import Excluded
from sysctl.price import Limits, Price, cheapest, model_of, price_of
from sysctl.results import RECHECK, Results
from sysctl.setting import Setting
from sysctl.statistics import Interval
from sysctl.uncredited import why_uncredited

#: A setting that is slower by no more may be as fast, if its interval does not say otherwise.
NEAR_BEST = 0.05


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
    """Rules 1 and 2."""
    rechecked = dict.fromkeys(trial.setting for trial in results.of_role(RECHECK))
    comparisons = {setting: compare(results, setting) for setting in rechecked}
    gains = _faster(results, comparisons)
    uncredited = {each.setting: why_uncredited(results, each.setting) for each in gains}
    faster = [each for each in gains if not uncredited[each.setting]]
    objections = [(each, limits.objection(each.price)) for each in faster]
    excluded = [
        Excluded(each.setting, why, each.interval.estimate, each.interval.count)
        for each, why in objections
        if why
    ]
    within = [each for each, why in objections if not why]
    why_not = {setting: why for setting, why in uncredited.items() if why}
    return Judged(comparisons, within, tuple(excluded), limits, why_not)


def _faster(results: Results, comparisons: Mapping[Setting, Comparison]) -> list[Faster]:
    """Rule 1, but for what the gains may be credited to."""
    model = model_of(results)
    return [
        Faster(setting, comparison, comparison.interval, price_of(results, setting, model))
        for setting, comparison in comparisons.items()
        if comparison.verdict is Verdict.FASTER
        and comparison.interval
        and comparison.interval.estimate * (1 + MIN_GAIN) <= 1
    ]


def near_the_fastest(faster: Sequence[Faster]) -> list[Faster]:
    """Rule 3."""
    fastest = min(faster, key=lambda each: each.interval.estimate)
    reach = fastest.interval.estimate * (1 + max(NEAR_BEST, fastest.comparison.noise_floor))
    return [
        each
        for each in faster
        if each.interval.low <= fastest.interval.high and each.interval.estimate <= reach
    ]


def choose(results: Results, near: Sequence[Faster]) -> Faster:
    """Rule 4, by what was measured of the prices alone."""
    kept = cheapest({each.setting: price_of(results, each.setting) for each in near})
    left = [each for each in near if each.setting in kept]
    return min(left, key=lambda each: each.interval.estimate)
