# SPDX-License-Identifier: Apache-2.0
"""The basis of an advice, computed once: prices, comparisons, and which settings count.

The rule, so that it can be argued with (`docs/explanation/advice.md`):

1. A setting counts if its pairs with the current settings show a gain of at least `MIN_GAIN` and an
   interval that excludes 1, with an error that accounts for repeated looks at the pairs and for the
   number of settings compared (`sysctl.evidence.comparison`). The gain must be attributable to the
   setting: extras need pairs of their own (`sysctl.search.extras`), and thresholds count only if
   writers waited.
2. A setting whose price exceeds the limits is excluded.
3. Of the rest, the fastest is kept, with those that are as good in direct pairs with it: at most
   `AS_GOOD` slower, or not shown to be slower and at most `MAYBE_AS_GOOD` slower.
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
from sysctl.search.extras import ExtraPairs, ExtrasNotCounted

#: A setting that is at most this much slower than the fastest is as good.
AS_GOOD = 0.05
#: The same, if the pairs do not show that it is slower.
MAYBE_AS_GOOD = 0.10


@dataclass(frozen=True)
class Faster:
    """A setting that is significantly faster in pairs, with its interval and price."""

    setting: Setting
    comparison: Comparison
    interval: Interval
    price: Price


@dataclass(frozen=True)
class Excluded:
    """A faster setting that the limits exclude, why, and its time as a share of the current time.

    `pairs` is the number of pairs behind that share, 0 if it is from one run of the search.
    """

    setting: Setting
    why: Objection
    ratio: float
    pairs: int


@dataclass(frozen=True)
class NotThrottled:
    """A gain of thresholds although writers were throttled for at most `stall_share` of their time.

    `is_all`: the setting changes nothing else.
    """

    stall_share: float
    is_all: bool = True


#: Why a gain is not attributable to the setting.
NotAttributable = Union[NotThrottled, ExtrasNotCounted]


@dataclass(frozen=True)
class Analysis:
    """The analysis of a sweep's runs under these limits.

    `present` are the current settings with all their runs, `noise` that of all settings in pairs.
    `model` is None if the runs are insufficient; `unpredictable` has the reason. `prices` has every
    setting with a valid run. `comparisons` has those with pairs; a faster one is `unattributed`
    (see `NotAttributable`), `within` the limits or `excluded`. `search_gains` has the
    candidates that were faster in their one run but are in no pair, as shares of the current time.
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
    unattributed: Mapping[Setting, NotAttributable]
    search_gains: Mapping[Setting, float]
    extras: ExtraPairs

    @property
    def present_price(self) -> Price:
        """The price of the current settings."""
        return self.prices[self.runs.baseline.setting]

    @property
    def has_other_limits(self) -> bool:
        """Whether the sweep had other limits, so that it did not search within these."""
        return self.limits != limits_of(self.runs.circumstances)

    def keeps_limits(self, setting: Setting) -> bool:
        """Return whether a setting is not known to exceed the limits."""
        return not self.limits.breaks(self.prices[setting])

    def preferred_first(self, faster: Sequence[Faster]) -> list[Faster]:
        """Apply rules 3 and 4: return the recommended setting, then those that are as good."""
        if not faster:
            return []
        fastest = min(faster, key=lambda each: each.interval.estimate)
        near = [each for each in faster if each is fastest or self._is_as_good(each, fastest)]
        kept = cheapest({each.setting: each.price for each in near})
        left = [each for each in near if each.setting in kept]
        chosen = min(left, key=lambda each: each.interval.estimate)
        return [chosen, *(each for each in near if each is not chosen)]

    def _is_as_good(self, each: Faster, fastest: Faster) -> bool:
        """Compare by blocks with both; without any, by their ratios to the current settings."""
        interval = compare(self.runs, each.setting, fastest.setting).interval
        if interval is None:
            return each.interval.estimate <= fastest.interval.estimate * (1 + AS_GOOD)
        limit = AS_GOOD if interval.low > 1 else MAYBE_AS_GOOD
        return interval.estimate <= 1 + limit


def analyse(runs: Runs, limits: Limits) -> Analysis:
    """Apply rules 1 and 2. Raises UsageError without a valid run of the current settings."""
    present = present_side(runs)
    if present is None:
        raise UsageError(
            "the results have no valid run of the current settings, so nothing can be compared",
            "run the sweep again, or continue it with --resume",
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
    why_unattributed = {each.setting: _why_unattributed(extras, each.setting) for each in gains}
    credited = [each for each in gains if why_unattributed[each.setting] is None]
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
        unattributed={setting: why for setting, why in why_unattributed.items() if why},
        search_gains=dict(_search_gains(runs)),
        extras=extras,
    )


def _fitted(runs: Runs) -> tuple[Model | None, str | None]:
    try:
        return fit(runs), None
    except UsageError as error:
        return None, str(error)


def _why_unattributed(extras: ExtraPairs, setting: Setting) -> NotAttributable | None:
    """Return why a gain is not attributable to the setting; None if it is."""
    runs = extras.runs
    share = runs.present_stall_share
    if share < NEGLIGIBLE_SHARE and runs.baseline.changed_thresholds(setting):
        return NotThrottled(share, not runs.baseline.changed_besides_thresholds(setting))
    return extras.not_counted(setting)


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
