# SPDX-License-Identifier: Apache-2.0
"""Comparisons of settings by pairs of runs.

The ratio of two settings comes only from pairs: runs next to each other in time, so that drift
(memory, the volume, the network) affects both equally. The noise is estimated from the runs of
both settings.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sysctl.evidence.results import PRESENT, RECHECK, Observation
from sysctl.evidence.runs import Runs
from sysctl.evidence.statistics import (
    Interval,
    Noise,
    Repeats,
    paired_interval,
    pooled_noise,
    summarize,
)
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import Thresholds

#: A smaller share of time is negligible: writers practically do not wait.
NEGLIGIBLE_SHARE = 0.02
#: A smaller gain is not worth a change, even if it is significant.
MIN_GAIN = 0.05
#: Degrees of freedom for a sufficient estimate of the noise: those of 3 pairs.
ENOUGH_DEGREES = 4
#: Fewer pairs are not compared.
MIN_PAIRS = 2
#: More pairs are not run: what 6 pairs do not show is not worth the time.
MAX_PAIRS = 6
#: The error of one look at the pairs; over the five looks after 2 to 6 pairs it is 5 %: Pocock,
#: Group sequential methods in the design and analysis of clinical trials, Biometrika 64 (1977).
LOOK_ERROR = 0.0158


@dataclass(frozen=True)
class Side:
    """A setting, its times to return (s), the observation of its median run, and its thresholds.

    `thresholds` are calculated with the median memory of all runs. The memory of each run differs a
    little, but the thresholds of two settings should differ only by the settings.
    """

    setting: Setting
    return_s: Repeats
    observation: Observation
    durable_s: float | None
    thresholds: Thresholds


def side_of(runs: Runs, setting: Setting, seen: Sequence[Observation]) -> Side:
    """Return a side made of some runs of a setting, at least one.

    The time to durable may come from any valid run of the setting.
    """
    ranked = sorted(seen, key=lambda run: run.return_s)
    valid = runs.valid_by_setting.get(setting, ())
    return Side(
        setting=setting,
        return_s=summarize([run.return_s for run in ranked]),
        observation=ranked[(len(ranked) - 1) // 2],
        durable_s=next((run.durable_s for run in valid if run.durable_s is not None), None),
        thresholds=runs.thresholds_of(setting),
    )


def present_side(runs: Runs) -> Side | None:
    """Return the current settings with all their runs; None if none of these is valid."""
    seen = runs.valid_present
    return side_of(runs, runs.baseline.setting, seen) if seen else None


def paired_sides(runs: Runs, setting: Setting) -> tuple[Side, Side]:
    """Return the current settings and `setting`, both with only the runs of its pairs.

    Reported times then agree with the ratios, which use the same runs. Raises ValueError without a
    valid pair.
    """
    pairs = pairs_of(runs, setting)
    if not pairs:
        raise ValueError(f"{setting} was not measured in pairs")
    return (
        side_of(runs, runs.baseline.setting, [pair.present for pair in pairs]),
        side_of(runs, setting, [pair.other for pair in pairs]),
    )


@dataclass(frozen=True)
class Pair:
    """Two runs next to each other: under a base (by default the current settings) and another."""

    present: Observation
    other: Observation

    @property
    def ratio(self) -> float:
        """The other's time to return divided by the base's; below 1 means faster."""
        return self.other.return_s / self.present.return_s


class Verdict(str, enum.Enum):
    """The outcome of a comparison of two settings."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "not distinguishable"
    UNKNOWN = "too few pairs"


@dataclass(frozen=True)
class Comparison:
    """A setting compared with a base: the ratio of their times to return (below 1 means faster).

    `interval` is the 95 % confidence interval, None without a pair; `noise` is that of both.
    """

    interval: Interval | None
    noise: Noise
    verdict: Verdict


def pairs_of(runs: Runs, setting: Setting, base: Setting | None = None) -> list[Pair]:
    """Return the pairs of a setting with a base, in the order in which they ran.

    Both runs of a pair are valid and from the same block. The default base is the current settings.
    """
    other = runs.baseline.setting if base is None else base
    ran_in = dict.fromkeys(trial.pair for trial in runs.of_setting(setting))
    found = (runs.blocks.get(number) for number in ran_in if number is not None)
    blocks = [block for block in found if block]
    sides = ((block.get(other), block.get(setting)) for block in blocks)
    return [Pair(before, after) for before, after in sides if before and after]


def noise_of(runs: Runs, settings: Iterable[Setting]) -> Noise:
    """Return the pooled noise of the runs of some settings.

    It uses runs in blocks and, if these are too few, also runs of the search. A host that became
    slower between the two then looks noisy until there are more blocks.
    """
    chosen = list(dict.fromkeys(settings))
    paired = pooled_noise(runs.times_s(each, is_paired=True) for each in chosen)
    if paired.degrees >= ENOUGH_DEGREES:
        return paired
    return pooled_noise(runs.times_s(each) for each in chosen)


def noise_of_pairs(runs: Runs) -> Noise:
    """Return the noise of the current settings and of all settings measured in pairs."""
    return noise_of(runs, [t.setting for t in runs.trials if t.role in (PRESENT, RECHECK)])


def compare(
    runs: Runs, setting: Setting, base: Setting | None = None, *, error: float = LOOK_ERROR
) -> Comparison:
    """Return the comparison of a setting with a base, by default the current settings.

    The setting is faster if its mean ratio is a gain of at least `MIN_GAIN` and the interval with
    confidence 1 − `error` excludes 1.
    """
    other = runs.baseline.setting if base is None else base
    noise = noise_of(runs, (other, setting))
    ratios = [pair.ratio for pair in pairs_of(runs, setting, other)]
    if not ratios:
        return Comparison(None, noise, Verdict.UNKNOWN)
    interval = paired_interval(ratios, noise)
    return Comparison(
        interval, noise, _verdict(interval, paired_interval(ratios, noise, 1 - error))
    )


def _verdict(interval: Interval, strict: Interval) -> Verdict:
    if interval.count < MIN_PAIRS:
        return Verdict.UNKNOWN
    if strict.high < 1 and is_gain(interval.estimate):
        return Verdict.FASTER
    return Verdict.SLOWER if interval.low > 1 else Verdict.SAME


def error_of_each(count: int) -> float:
    """Return the error of a look at one of `count` finalists; together they have `LOOK_ERROR`."""
    return LOOK_ERROR / max(1, count)


def compared_settings(runs: Runs) -> list[Setting]:
    """Return the settings that have pairs with the current ones."""
    return [setting for setting in runs.rechecked if pairs_of(runs, setting)]


def error_of_looks(runs: Runs, finalists: Iterable[Setting] = ()) -> float:
    """Return the error of a look at one of the settings that have pairs or are to have some.

    The recheck and the advice use the same error, so they come to the same decision.
    """
    return error_of_each(len({*compared_settings(runs), *finalists}))


def is_gain(ratio: float) -> bool:
    """Return whether a ratio of times is a gain of at least `MIN_GAIN`."""
    return ratio * (1 + MIN_GAIN) <= 1
