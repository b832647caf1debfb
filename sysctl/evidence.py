"""What the runs of settings show together: one side of a comparison, and paired comparisons.

A comparison rests on pairs alone: runs of a setting and of the present ones next to each other in
time, so that what drifts (memory, the volume, the network) is the same for both.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.results import PRESENT, RECHECK, Observation, Results, Trial
from sysctl.setting import Setting, replace_values
from sysctl.statistics import Interval, Repeats, noise_floor, ratio_interval, summarize
from sysctl.writeback import Thresholds, effective_thresholds

#: Shares of time below this are as good as none: writers may be said not to wait at all.
NEGLIGIBLE_SHARE = 0.02


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


def side_of(results: Results, trials: Sequence[Trial]) -> Side | None:
    """The repeated runs of one setting as a side; None when none of them is valid."""
    valid = [trial.valid for trial in trials if trial.valid]
    return _side(results, trials[0].setting, valid) if valid else None


def paired_sides(results: Results, setting: Setting) -> tuple[Side, Side]:
    """The present settings and another one, both by the runs of the other's pairs alone.

    No other time enters what is said of the two, as none enters their ratios. Raises ValueError
    without a valid pair.
    """
    pairs = pairs_of(results, setting)
    if not pairs:
        raise ValueError(f"{setting} was not measured in pairs")
    present = results.of_role(PRESENT)[0].setting
    return (
        _side(results, present, [pair.present for pair in pairs]),
        _side(results, setting, [pair.other for pair in pairs]),
    )


def _side(results: Results, setting: Setting, runs: Sequence[Observation]) -> Side:
    """Of those runs; when all was on the device is known from any run of the setting."""
    ranked = sorted(runs, key=lambda seen: seen.return_s)
    valid = (trial.valid for trial in results.of_setting(setting))
    return Side(
        setting=setting,
        return_s=summarize([seen.return_s for seen in ranked]),
        observation=ranked[(len(ranked) - 1) // 2],
        durable_s=next((s.durable_s for s in valid if s and s.durable_s is not None), None),
        thresholds=thresholds_of(results, setting),
    )


def thresholds_of(results: Results, setting: Setting) -> Thresholds:
    """What a setting means in bytes with the memory that the sweep had."""
    present = results.of_role(PRESENT)
    values = replace_values(present[0].setting.values if present else {}, setting.values)
    return effective_thresholds(values, dirtyable_bytes_of(results))


def dirtyable_bytes_of(results: Results) -> int:
    """The memory of which the ratios were shares while it was measured: the valid runs' median.

    Before the first run it was more: the sweep's own workers were not there yet.
    """
    return results.derived(_dirtyable_bytes)


def _dirtyable_bytes(results: Results) -> int:
    seen = [trial.valid.dirtyable_bytes for trial in results.trials if trial.valid]
    known = [memory_bytes for memory_bytes in seen if memory_bytes]
    return round(statistics.median(known)) if known else int(results.context["dirtyable_bytes"])


@dataclass(frozen=True)
class Pair:
    """Two runs next to each other: under the present settings, and under another."""

    present: Observation
    other: Observation

    @property
    def ratio(self) -> float:
        """The other's time to return divided by the present one's: below 1 it is faster."""
        return self.other.return_s / self.present.return_s


class Verdict(str, enum.Enum):
    """What the pairs let one say of a setting beside the present ones."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "not distinguishable"
    UNKNOWN = "too few pairs"


@dataclass(frozen=True)
class Comparison:
    """A setting against the present ones: the ratio of times to return (below 1 is faster).

    `interval` is None without a single pair. `noise_floor` is a part: two runs of the present
    settings typically differ by it.
    """

    interval: Interval | None
    noise_floor: float
    verdict: Verdict


def pairs_of(results: Results, setting: Setting) -> list[Pair]:
    """The pairs of a setting that are valid on both sides, in the order in which they ran."""
    present = {t.pair: t.valid for t in results.of_role(PRESENT) if t.valid}
    others = [t for t in results.of_role(RECHECK) if t.setting == setting and t.pair is not None]
    sides = [(present.get(trial.pair), trial.valid) for trial in others]
    return [Pair(before, after) for before, after in sides if before and after]


def compare(results: Results, setting: Setting) -> Comparison:
    """Whether a setting is faster than the present ones.

    It is where the interval excludes 1 and the median is further from 1 than the noise floor.
    """
    ratios = [pair.ratio for pair in pairs_of(results, setting)]
    interval = ratio_interval(ratios) if ratios else None
    floor = noise_floor_of(results)
    return Comparison(interval, floor, _verdict(interval, floor))


def _verdict(interval: Interval | None, floor: float) -> Verdict:
    if interval is None or interval.count < 2:
        return Verdict.UNKNOWN
    if interval.includes(1.0) or abs(math.log(interval.estimate)) <= math.log1p(floor):
        return Verdict.SAME
    return Verdict.FASTER if interval.estimate < 1 else Verdict.SLOWER


def writers_of(results: Results, run: Observation) -> int:
    """How many threads could write at a time in a run; at least 1."""
    return max(1, min(run.writers or workers_of(results), run.objects))


def workers_of(results: Results) -> int:
    """How many workers pulled; 1 where the results do not say it in a number."""
    workers = results.context.get("workers")
    return workers if isinstance(workers, int) and workers > 0 else 1


def noise_floor_of(results: Results) -> float:
    """The noise floor of all valid runs of the present settings (`statistics.noise_floor`)."""
    return noise_floor([t.valid.return_s for t in results.of_role(PRESENT) if t.valid])
