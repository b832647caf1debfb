"""What runs show together: one side of a comparison, and paired comparisons of two settings.

The ratio of two settings is that of pairs alone: runs next to each other in time, so that what
drifts (memory, the volume, the network) is the same for both. How much runs under the same settings
scatter is estimated from the runs of both.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sysctl.evidence.differences import present_setting
from sysctl.evidence.results import PRESENT, PRICE, RECHECK, Observation, Results, Trial, grouped
from sysctl.evidence.statistics import (
    Interval,
    Noise,
    Repeats,
    paired_interval,
    pooled_noise,
    summarize,
)
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.writeback import Thresholds, effective_thresholds

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
#: Writers that wait for a CPU for more of their time than this, compared with the median run of the
#: same setting, are slowed by something that is not the setting.
CPU_WAIT_SLACK = 0.05
#: `profiler.watch.causes.Cause.QUEUED`, by its name in the results.
CPU_WAIT = "waiting for a CPU"


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
    return (
        _side(results, present_setting(results), [pair.present for pair in pairs]),
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
    values = replace_values(present_setting(results).values, setting.values)
    return effective_thresholds(values, dirtyable_bytes_of(results))


def dirtyable_bytes_of(results: Results) -> int:
    """The memory of which the ratios were shares while it was measured: the valid runs' median.

    Before the first run it was more: the sweep's own workers were not there yet.
    """
    return results.derived(_dirtyable_bytes)


def _dirtyable_bytes(results: Results) -> int:
    seen = [trial.valid.dirtyable_bytes for trial in results.trials if trial.valid]
    known = [memory_bytes for memory_bytes in seen if memory_bytes]
    return round(statistics.median(known)) if known else results.circumstances.node.dirtyable_bytes


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


def pairs_of(results: Results, setting: Setting, base: Setting | None = None) -> list[Pair]:
    """Return the pairs of a setting with a base, in the order in which they ran.

    A pair is of one block and valid on both sides. The base is the present settings by default.
    """
    other = present_setting(results) if base is None else base
    every = results.derived(_by_block)
    ran_in = dict.fromkeys(trial.pair for trial in results.of_setting(setting))
    blocks = [every[number] for number in ran_in if number in every]
    sides = ((block.get(other), block.get(setting)) for block in blocks)
    return [Pair(before, after) for before, after in sides if before and after]


def _by_block(results: Results) -> dict[int, dict[Setting, Observation]]:
    """Return the runs that count, by the number of their block and by setting."""
    blocks: dict[int, dict[Setting, Observation]] = {}
    for trial in results.trials:
        if trial.pair is not None and trial.valid and not is_starved(results, trial):
            blocks.setdefault(trial.pair, {})[trial.setting] = trial.valid
    return blocks


def noise_of(results: Results, settings: Iterable[Setting]) -> Noise:
    """Return the noise that the runs of some settings have in common.

    From their runs in blocks; where these are few, from those of the search too. A host that became
    slower in between is then taken for a noisy one, until more blocks tell.
    """
    chosen = list(dict.fromkeys(settings))
    paired = pooled_noise(_times_of(results, each, is_paired=True) for each in chosen)
    if paired.degrees >= ENOUGH_DEGREES:
        return paired
    return pooled_noise(_times_of(results, each) for each in chosen)


def _times_of(results: Results, setting: Setting, *, is_paired: bool = False) -> list[float]:
    """The times to return (s) of a setting's runs that count in comparisons."""
    return [
        trial.valid.return_s
        for trial in results.of_setting(setting)
        if trial.valid and trial.role != PRICE and not is_starved(results, trial)
        if not is_paired or trial.pair is not None
    ]


def is_starved(results: Results, trial: Trial) -> bool:
    """Return whether its writers waited for a CPU for more of their time than is usual.

    By more than `CPU_WAIT_SLACK`, compared with the median run of the same setting, valid or not:
    on a host that is busy all the time every run waits. That a first run was disturbed is known
    only afterwards.
    """
    if trial.valid is None:
        return False
    usual = results.derived(_usual_cpu_wait)[trial.setting]
    return cpu_wait_share(results, trial.valid) > usual + CPU_WAIT_SLACK


def _usual_cpu_wait(results: Results) -> dict[Setting, float]:
    seen = ((trial.setting, trial.observation) for trial in results.trials)
    shares = grouped((s, cpu_wait_share(results, run)) for s, run in seen if run)
    return {setting: statistics.median_low(found) for setting, found in shares.items()}


def cpu_wait_share(results: Results, run: Observation) -> float:
    """Return the part of the writers' time in which they waited for a CPU in write calls."""
    return cause_share(results, run, CPU_WAIT)


def cause_share(results: Results, run: Observation, cause: str) -> float:
    """Return the part of the writers' time that write calls spent for a cause; 0 where not known.

    The writers' time is the time to return × the threads that could write at a time.
    """
    return run.split_s.get(cause, 0.0) / (run.return_s * writers_of(results, run))


def compare(
    results: Results, setting: Setting, base: Setting | None = None, *, error: float = LOOK_ERROR
) -> Comparison:
    """Return what the pairs show of a setting compared with a base, by default the present ones.

    It is faster where its mean ratio is a gain of `MIN_GAIN` or more and the interval of confidence
    1 − `error` excludes 1.
    """
    other = present_setting(results) if base is None else base
    noise = noise_of(results, (other, setting))
    ratios = [pair.ratio for pair in pairs_of(results, setting, other)]
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


def is_gain(ratio: float) -> bool:
    """Return whether a ratio of times is a gain that is worth a change."""
    return ratio * (1 + MIN_GAIN) <= 1


def present_stall_share(results: Results) -> float:
    """Return the largest part of their time that writers slept in throttling at present; 0 to 1."""
    present = present_setting(results)
    seen = (trial.valid for trial in results.of_setting(present))
    return max((run.throttled_share for run in seen if run), default=0.0)


def noise_of_pairs(results: Results) -> Noise:
    """Return the noise of the present settings and of all that was measured in pairs."""
    return noise_of(results, [t.setting for t in results.trials if t.role in (PRESENT, RECHECK)])


def writers_of(results: Results, run: Observation) -> int:
    """How many threads could write at a time in a run; at least 1."""
    return max(1, min(run.writers or workers_of(results), run.objects))


def workers_of(results: Results) -> int:
    """How many workers pulled; 1 where the results do not say it."""
    return results.circumstances.node_class.workers or 1
