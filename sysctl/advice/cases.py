"""What the evidence says where a change of settings does not help, or not enough: the honest cases.

Each is a pure function from measured figures to a sentence, or None where the case is another one.
The shares are of the time that the pull's writers had: run time × threads that could write at a
time.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contracts.shared.units import counted, format_rate, format_seconds, format_size
from sysctl.advice.explain import LARGEST_SHARE, share, share_text
from sysctl.evidence.comparison import (
    MIN_GAIN,
    NEGLIGIBLE_SHARE,
    Comparison,
    Side,
    cause_share,
    is_gain,
    noise_of_pairs,
)
from sysctl.evidence.differences import changed_transfer
from sysctl.evidence.price import model_of
from sysctl.evidence.results import CANDIDATE, RECHECK, Observation, Results
from sysctl.evidence.statistics import Interval, Repeats

#: From this share on a wait in write calls is worth a sentence.
_MUCH = 0.10
#: `profiler.watch.causes.Cause.THROTTLED`, by its name in the results.
THROTTLING = "dirty throttling"
#: Causes of `profiler.watch.causes.Cause` that more room for dirty pages does not shorten.
OTHER_WAITS: Mapping[str, str] = {
    "waiting for the device": "for the device",
    "other sleeping": "for locks, the journal or memory",
    "waiting for a CPU": "for a CPU",
}
#: Objects of that mean size make a pull one of many operations rather than of many bytes.
SMALL_OBJECT_BYTES = 2**20
#: One invalid trial alone, however few there are, is chance.
_FEWEST_INVALID = 2
#: From so many invalid trials, or so much between runs alike, or so wide an interval on is noise.
_NOISY_TRIALS, _NOISY, _WIDE_INTERVAL = 0.25, 0.10, 1.5
_ALL_LEFT_OUT = (
    "only the present settings were measured, as all else was left out. If the sweep was stopped, "
    "go on with `writewise sweep … --resume`."
)


class Case(str, enum.Enum):
    """What a sweep came to; the value is its name in JSON."""

    CHANGE = "change recommended"
    NOTHING_TO_GAIN = "writers do not wait"
    OTHER_WAITS = "writers wait for something else"
    BEYOND_MEMORY = "burst beyond memory"
    NOTHING_MEASURED = "nothing else could be measured"
    NOISE = "too noisy to tell"
    NO_DIFFERENCE = "no difference"
    NOT_WITHIN_LIMITS = "nothing within the limits"
    PRESENT_BEYOND_LIMITS = "present settings beyond the limits"
    UNFINISHED = "unfinished"


@dataclass(frozen=True)
class CaseFinding:
    """A case and the sentence that says it with this host's figures."""

    case: Case
    sentence: str


def writers_do_not_wait(results: Results, present: Side) -> CaseFinding | None:
    """The source is the bottleneck (or the volume's operations), not dirty throttling."""
    seen = present.observation
    if seen.throttled_share >= NEGLIGIBLE_SHARE or _varies_transfer(results):
        return None
    return longer_wait(results, present) or _nothing_to_gain(present)


def _varies_transfer(results: Results) -> bool:
    """Whether the pull's own settings were tried: those gain also where no writer waits."""
    return any(changed_transfer(results, trial.setting) for trial in results.of_role(CANDIDATE))


def _nothing_to_gain(present: Side) -> CaseFinding:
    seen, freerun_bytes = present.observation, present.thresholds.freerun_bytes
    brought = format_rate(seen.bytes / seen.return_s)
    if seen.peak_dirty_bytes < freerun_bytes:
        sentence = (
            f"writers never waited: the source brought {brought}, of which at most "
            f"{format_size(seen.peak_dirty_bytes)} were dirty at a time, and writers are made to "
            f"wait from {format_size(freerun_bytes)} on; no write-back setting can help."
        )
    else:
        sentence = (
            f"writers slept {seen.throttled_share:.1%} of their time in dirty throttling, too "
            f"little for a write-back setting to save {MIN_GAIN:.0%} of "
            f"{format_seconds(seen.return_s)}; the source brought {brought}."
        )
    return CaseFinding(Case.NOTHING_TO_GAIN, f"{sentence}{_kept_up(present)}{_operations(seen)}")


def _kept_up(present: Side) -> str:
    """That the device is faster than the source, where it was seen to be."""
    if present.durable_s is None or present.durable_s > 1.1 * present.return_s.largest:
        return ""
    return (
        f" All was on the device {format_seconds(present.durable_s)} after the start: it is as "
        "fast as the source."
    )


def longer_wait(results: Results, present: Side) -> CaseFinding | None:
    """The longest other wait in write calls, if it is a tenth of the writers' time or more.

    And no shorter than the wait in dirty throttling.
    """
    seen = present.observation
    waits = {cause: cause_share(results, seen, cause) for cause in OTHER_WAITS}
    cause = max(waits, key=lambda name: waits[name])
    throttled = cause_share(results, seen, THROTTLING)
    if waits[cause] < max(_MUCH, throttled):
        return None
    sentence = (
        f"writers waited {waits[cause]:.0%} of their time {OTHER_WAITS[cause]} and "
        f"{throttled:.1%} in dirty throttling, the only wait that write-back settings shorten."
    )
    return CaseFinding(Case.OTHER_WAITS, f"{sentence}{_operations(seen)}")


def _operations(seen: Observation) -> str:
    """What a pull of small objects asks of a volume."""
    if not seen.objects or seen.bytes / seen.objects >= SMALL_OBJECT_BYTES:
        return ""
    return (
        f" The {counted(seen.objects, 'object')} have {format_size(seen.bytes / seen.objects)} "
        f"each, {seen.objects / seen.return_s:.0f} of them arrived per second: such a pull asks a "
        "volume for operations (IOPS) rather than for throughput."
    )


def beyond_memory(results: Results, seen: Observation) -> CaseFinding | None:
    """The burst needs more dirty memory than there is, so its rest waits for the device.

    As predicted under the best thresholds that there can be (`Model.rate_needed_bytes_per_s`), not
    under those that were tried.
    """
    model = model_of(results)
    if model is None or seen.throttled_share < NEGLIGIBLE_SHARE:
        return None
    rate, memory = model.rate_needed_bytes_per_s(), model.memory_needed_bytes()
    if rate is None or memory is None:
        return None
    device = model.device_bytes_per_s
    return CaseFinding(
        Case.BEYOND_MEMORY,
        f"the burst of {format_size(model.burst_bytes)} is beyond this host's memory: no "
        f"thresholds let it return at the source's {format_rate(model.source_bytes_per_s)} where "
        f"{format_size(model.dirtyable_bytes)} can be dirty and the device writes "
        f"{format_rate(device)}. What would help: a volume that writes {format_rate(rate)}, "
        f"{rate / device:.1f} times as fast, to return after "
        f"{format_seconds(model.unthrottled_s())}; or an instance on which {format_size(memory)} "
        "can be dirty (both as predicted, with the best thresholds).",
    )


def nothing_measured(results: Results) -> CaseFinding | None:
    """Every other setting failed or was invalid."""
    problems = [t.problem for t in (*results.of_role(CANDIDATE), *results.of_role(RECHECK))]
    if not problems or not all(problems):
        return None
    reason, times = Counter(problems).most_common(1)[0]
    of = f"{times} of {counted(len(problems), 'trial')}"
    return CaseFinding(
        Case.NOTHING_MEASURED, f"no other setting could be measured ({of}: {reason})."
    )


def noise(results: Results, comparisons: Sequence[Comparison]) -> CaseFinding | None:
    """Runs alike differ too much, or too many trials are invalid, to tell settings apart."""
    signs = [*_invalid(results), *_restless(results), *_wide(comparisons)]
    if not signs:
        return None
    sentence = (
        f"{'; '.join(signs)}: what else this host, its volume or the network does hides what the "
        "settings do. Sweep again when it is quieter, or with a larger --budget."
    )
    return CaseFinding(Case.NOISE, sentence)


def _invalid(results: Results) -> list[str]:
    problems = [trial.problem for trial in results.trials if trial.problem]
    if len(problems) < max(_FEWEST_INVALID, _NOISY_TRIALS * len(results.trials)):
        return []
    reason, times = Counter(problems).most_common(1)[0]
    often = f"{times} times: " if times > 1 else ""
    return [f"{len(problems)} of {len(results.trials)} trials were invalid ({often}{reason})"]


def _restless(results: Results) -> list[str]:
    deviation = noise_of_pairs(results).deviation
    if deviation <= _NOISY:
        return []
    return [f"times under the same settings scatter by {deviation:.0%} (standard deviation)"]


def _wide(comparisons: Sequence[Comparison]) -> list[str]:
    """The narrowest interval, if even that is wide and includes 1."""
    intervals = [c.interval for c in comparisons if c.interval and c.interval.count > 1]
    if not intervals:
        return []
    narrowest = min(intervals, key=lambda interval: interval.high / max(interval.low, 1e-9))
    is_wide = narrowest.high > _WIDE_INTERVAL * narrowest.low
    if not is_wide or not narrowest.includes(1.0):
        return []
    return [
        f"after {counted(narrowest.count, 'pair')} even the setting measured best may take "
        f"anything from {share(narrowest.low, 0)} to {share(narrowest.high, 0)} of the present time"
        + (", so much do the pairs contradict each other" * (narrowest.high > LARGEST_SHARE))
    ]


def no_difference(
    results: Results, present: Side, comparisons: Sequence[Comparison]
) -> CaseFinding:
    """Nothing that was tried is faster by more than chance."""
    intervals = [c.interval for c in comparisons if c.interval and c.interval.count > 1]
    if intervals:
        best = min(intervals, key=lambda interval: interval.estimate)
        took = f"the best of the settings measured again took {share_text(best)}"
        return CaseFinding(Case.NO_DIFFERENCE, f"{took}, {why_no_gain(best)}.")
    if not results.of_role(CANDIDATE):
        return CaseFinding(Case.NOTHING_MEASURED, _ALL_LEFT_OUT)
    times_s = [t.valid.return_s for t in results.of_role(CANDIDATE) if t.valid]
    took = (
        f"the best of the settings tried took {format_seconds(min(times_s))}"
        if times_s
        else "all the settings tried were stopped as hopeless"
    )
    sentence = (
        f"{took}, the present ones took {span_text(present.return_s)}: no gain that is worth "
        "measuring again."
    )
    return CaseFinding(Case.NO_DIFFERENCE, sentence)


def span_text(times_s: Repeats) -> str:
    """`19.0 s to 20.3 s`; of a single run its time."""
    ends = dict.fromkeys((times_s.smallest, times_s.largest))
    return " to ".join(map(format_seconds, ends))


def why_no_gain(interval: Interval) -> str:
    """Why pairs show no gain worth a change, to follow `took 98% of the present time, `."""
    if interval.includes(1.0):
        return "not distinguishable from the present settings"
    if interval.estimate > 1:
        return "slower than the present settings"
    if not is_gain(interval.estimate):
        return f"a gain of less than {MIN_GAIN:.0%}, which is not worth a change"
    return "a gain that chance may explain, as the pairs were looked at more than once"
