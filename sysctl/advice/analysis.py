"""All that an advice rests on, computed once: prices, comparisons, which settings count.

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

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from contracts.shared.errors import UsageError
from sysctl.evidence.comparison import (
    NEGLIGIBLE_SHARE,
    Comparison,
    Side,
    Verdict,
    compare,
    compared_settings,
    error_of_looks,
    is_gain,
    noise_of_pairs,
    present_side,
)
from sysctl.evidence.prediction import Model, fit
from sysctl.evidence.price import Limits, Objection, Price, cheapest, limits_of, price_of
from sysctl.evidence.results import CANDIDATE
from sysctl.evidence.runs import Runs
from sysctl.evidence.statistics import Interval, Noise
from sysctl.knobs.setting import Setting
from sysctl.search.extras import ExtraPairs, Uncredited

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
class Excluded:
    """A faster setting that the limits exclude, why, and the share of the present time it took.

    `pairs` is how many pairs show that share, 0 where it is from one run of the search.
    """

    setting: Setting
    why: Objection
    ratio: float
    pairs: int


@dataclass(frozen=True)
class TookNoPart:
    """A doubt about thresholds: at most that part of their time writers slept in throttling.

    `is_all`: the setting changes nothing else.
    """

    stall_share: float
    is_all: bool = True


#: Why a gain is not the setting's doing.
Doubted = Union[TookNoPart, Uncredited]


@dataclass(frozen=True)
class Analysis:
    """What the runs of a sweep come to for somebody with these limits.

    `present` are the present settings by all their runs, `noise` that of all settings in pairs.
    `model` is None where `unpredictable` says why there is none. `prices` are of every setting with
    a valid run. `comparisons` are of those in pairs with the present ones; of the faster ones the
    gain of some is `doubted`, the others are `within` the limits or `excluded`. `search_gains` are
    shares of the present time, of candidates that were faster in their one run and are in no pair.
    """

    runs: Runs
    limits: Limits
    present: Side
    noise: Noise
    model: Model | None
    unpredictable: str | None
    prices: Mapping[Setting, Price]
    comparisons: Mapping[Setting, Comparison]
    within: tuple[Faster, ...]
    excluded: tuple[Excluded, ...]
    doubted: Mapping[Setting, Doubted]
    search_gains: Mapping[Setting, float]
    extras: ExtraPairs

    @property
    def present_price(self) -> Price:
        """The price of the present settings."""
        return self.prices[self.runs.baseline.setting]

    @property
    def has_other_limits(self) -> bool:
        """Whether the sweep was given others, so that it did not look for what keeps these."""
        return self.limits != limits_of(self.runs.circumstances)

    def keeps_limits(self, setting: Setting) -> bool:
        """Return whether the limits allow a setting, as far as is known."""
        return not self.limits.breaks(self.prices[setting])

    def preferred_first(self, faster: Sequence[Faster]) -> list[Faster]:
        """Apply rules 3 and 4: return what is recommended, then what is as good; none of none."""
        if not faster:
            return []
        fastest = min(faster, key=lambda each: each.interval.estimate)
        near = [each for each in faster if each is fastest or self._is_as_good(each, fastest)]
        kept = cheapest({each.setting: each.price for each in near})
        left = [each for each in near if each.setting in kept]
        chosen = min(left, key=lambda each: each.interval.estimate)
        return [chosen, *(each for each in near if each is not chosen)]

    def _is_as_good(self, each: Faster, fastest: Faster) -> bool:
        """By the blocks in which both ran; by their ratios to the present settings without any."""
        interval = compare(self.runs, each.setting, fastest.setting).interval
        if interval is None:
            return each.interval.estimate <= fastest.interval.estimate * (1 + AS_GOOD)
        limit = AS_GOOD if interval.low > 1 else MAYBE_AS_GOOD
        return interval.estimate <= 1 + limit


def analyse(runs: Runs, limits: Limits) -> Analysis:
    """Apply rules 1 and 2. Raises UsageError without a valid run of the present settings."""
    present = present_side(runs)
    if present is None:
        raise UsageError(
            "the results hold no valid run of the present settings, so nothing can be compared",
            "run the sweep again, or go on with --resume",
        )
    model, unpredictable = _fitted(runs)
    measured = dict.fromkeys([runs.baseline.setting, *runs.valid_by_setting])
    prices = {setting: price_of(runs, setting, model) for setting in measured}
    error = error_of_looks(runs)
    comparisons = {each: compare(runs, each, error=error) for each in compared_settings(runs)}
    gains = [
        Faster(setting, found, found.interval, prices[setting])
        for setting, found in comparisons.items()
        if found.verdict is Verdict.FASTER and found.interval
    ]
    extras = ExtraPairs(runs)
    doubts = {each.setting: _doubt(extras, each.setting) for each in gains}
    credited = [each for each in gains if doubts[each.setting] is None]
    return Analysis(
        runs=runs,
        limits=limits,
        present=present,
        noise=noise_of_pairs(runs),
        model=model,
        unpredictable=unpredictable,
        prices=prices,
        comparisons=comparisons,
        within=tuple(each for each in credited if not limits.objection(each.price)),
        excluded=tuple(_excluded(credited, limits)),
        doubted={setting: doubt for setting, doubt in doubts.items() if doubt},
        search_gains=dict(_search_gains(runs)),
        extras=extras,
    )


def _fitted(runs: Runs) -> tuple[Model | None, str | None]:
    try:
        return fit(runs), None
    except UsageError as error:
        return None, str(error)


def _doubt(extras: ExtraPairs, setting: Setting) -> Doubted | None:
    """Why a gain is not the setting's doing; None if it is."""
    runs = extras.runs
    share = runs.present_stall_share
    if share < NEGLIGIBLE_SHARE and runs.baseline.changed_thresholds(setting):
        return TookNoPart(share, not runs.baseline.changed_besides_thresholds(setting))
    return extras.uncredited(setting)


def _excluded(faster: Sequence[Faster], limits: Limits) -> Iterator[Excluded]:
    for each in faster:
        why = limits.objection(each.price)
        if why is not None:
            yield Excluded(each.setting, why, each.interval.estimate, each.interval.count)


def _search_gains(runs: Runs) -> Iterator[tuple[Setting, float]]:
    """Candidates in no pair with a gain in their one run: shares of the present median time."""
    if not runs.present_alone_s:
        return
    present_s = statistics.median(runs.present_alone_s)
    for trial in runs.of_role(CANDIDATE):
        if trial.valid and trial.setting not in runs.rechecked:
            ratio = trial.valid.return_s / present_s
            if is_gain(ratio):
                yield trial.setting, ratio
