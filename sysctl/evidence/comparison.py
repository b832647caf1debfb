"""What runs show together: one side of a comparison, and paired comparisons of two settings.

The ratio of two settings is that of pairs alone: runs next to each other in time, so that what
drifts (memory, the volume, the network) is the same for both. How much runs under the same settings
scatter is estimated from the runs of both.
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

#: Shares of time below this are as good as none: writers may be said not to wait at all.
NEGLIGIBLE_SHARE = 0.02
#: A smaller gain is not worth a change, whatever the evidence.
MIN_GAIN = 0.05
#: Degrees of freedom from which on a noise is known well enough: those of 3 pairs.
ENOUGH_DEGREES = 4
#: Fewer pairs are no comparison.
MIN_PAIRS = 2
#: More are not made: what 6 pairs do not show is not worth finding out.
MAX_PAIRS = 6
#: The error of one look at the pairs that is 5 % over the five looks after 2 to 6 of them: Pocock,
#: Group sequential methods in the design and analysis of clinical trials, Biometrika 64 (1977).
LOOK_ERROR = 0.0158


@dataclass(frozen=True)
class Side:
    """A setting, its times to return (s), what the run of the median time showed, and its meaning.

    `thresholds` are what the setting means with the memory that the sweep had, the runs' median:
    that of each run differs a little, and two settings should differ in what they say alone.
    """

    setting: Setting
    return_s: Repeats
    observation: Observation
    durable_s: float | None
    thresholds: Thresholds


def side_of(runs: Runs, setting: Setting, seen: Sequence[Observation]) -> Side:
    """Return a side of some runs of a setting, at least one.

    When all was on the device is known from any run of it.
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
    """Return the present settings by all their runs; None where none of them is valid."""
    seen = runs.valid_present
    return side_of(runs, runs.baseline.setting, seen) if seen else None


def paired_sides(runs: Runs, setting: Setting) -> tuple[Side, Side]:
    """Return the present settings and `setting`, both by the runs of its pairs alone.

    No other time enters what is said of the two, as none enters their ratios. Raises ValueError
    without a valid pair.
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
    """Two runs next to each other: under a base, the present settings by default, and another."""

    present: Observation
    other: Observation

    @property
    def ratio(self) -> float:
        """The other's time to return divided by the base's: below 1 it is faster."""
        return self.other.return_s / self.present.return_s


class Verdict(str, enum.Enum):
    """What pairs of runs show of a setting compared with another one."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "not distinguishable"
    UNKNOWN = "too few pairs"


@dataclass(frozen=True)
class Comparison:
    """A setting compared with a base: the ratio of their times to return (below 1 is faster).

    `interval` is the 95 % one, None without a single pair; `noise` that of the runs of both.
    """

    interval: Interval | None
    noise: Noise
    verdict: Verdict


def pairs_of(runs: Runs, setting: Setting, base: Setting | None = None) -> list[Pair]:
    """Return the pairs of a setting with a base, in the order in which they ran.

    A pair is of one block and valid on both sides. The base is the present settings by default.
    """
    other = runs.baseline.setting if base is None else base
    ran_in = dict.fromkeys(trial.pair for trial in runs.of_setting(setting))
    found = (runs.blocks.get(number) for number in ran_in if number is not None)
    blocks = [block for block in found if block]
    sides = ((block.get(other), block.get(setting)) for block in blocks)
    return [Pair(before, after) for before, after in sides if before and after]


def noise_of(runs: Runs, settings: Iterable[Setting]) -> Noise:
    """Return the noise that the runs of some settings have in common.

    From their runs in blocks; where these are few, from those of the search too. A host that became
    slower in between is then taken for a noisy one, until more blocks show it.
    """
    chosen = list(dict.fromkeys(settings))
    paired = pooled_noise(runs.times_s(each, is_paired=True) for each in chosen)
    if paired.degrees >= ENOUGH_DEGREES:
        return paired
    return pooled_noise(runs.times_s(each) for each in chosen)


def noise_of_pairs(runs: Runs) -> Noise:
    """Return the noise of the present settings and of all that was measured in pairs."""
    return noise_of(runs, [t.setting for t in runs.trials if t.role in (PRESENT, RECHECK)])


def compare(
    runs: Runs, setting: Setting, base: Setting | None = None, *, error: float = LOOK_ERROR
) -> Comparison:
    """Return what the pairs show of a setting compared with a base, by default the present ones.

    It is faster where its mean ratio is a gain of `MIN_GAIN` or more and the interval of confidence
    1 − `error` excludes 1.
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
    """Return the error of a look at one of so many finalists: together they have `LOOK_ERROR`."""
    return LOOK_ERROR / max(1, count)


def compared_settings(runs: Runs) -> list[Setting]:
    """Return the settings that have pairs with the present ones."""
    return [setting for setting in runs.rechecked if pairs_of(runs, setting)]


def error_of_looks(runs: Runs, finalists: Iterable[Setting] = ()) -> float:
    """Return the error of a look at one of all that have pairs, or are to have some.

    The recheck and the advice use the same, so that what the one has decided the other says.
    """
    return error_of_each(len({*compared_settings(runs), *finalists}))


def is_gain(ratio: float) -> bool:
    """Return whether a ratio of times is a gain that is worth a change."""
    return ratio * (1 + MIN_GAIN) <= 1
