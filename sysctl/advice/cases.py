# SPDX-License-Identifier: Apache-2.0
"""The reasons for no change: why other settings do not help, or not enough.

Each reason is a pure function from measured figures to a conclusion, or to None if it does not
apply; `why_none` has their order.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from contracts.causes import Cause
from sysctl.advice.analysis import Analysis, Excluded
from sysctl.advice.conclusions import (
    AllLeftOut,
    BeyondMemory,
    Conclusion,
    CostOfLimits,
    InvalidTrials,
    KeepsLimits,
    NoGainInPairs,
    NoGainInSearch,
    NoneKeepsLimits,
    NothingMeasured,
    NothingWithin,
    OnlyUnattributed,
    OtherWait,
    PresentBeyond,
    TooNoisy,
    UnattributedGain,
    Unfinished,
    WritersDoNotWait,
)
from sysctl.evidence.comparison import MIN_PAIRS, NEGLIGIBLE_SHARE, is_gain, pairs_of
from sysctl.evidence.price import limits_of
from sysctl.evidence.results import CANDIDATE, RECHECK, Observation, Trial
from sysctl.evidence.statistics import Interval, summarize

#: A wait in write calls is reported from this share on.
_MUCH = 0.10
#: The waits that higher thresholds do not shorten.
OTHER_WAITS = (Cause.DEVICE, Cause.SLEEPING, Cause.QUEUED)
#: A single invalid trial is not a sign of noise.
_FEWEST_INVALID = 2
#: Signs of noise: the share of invalid trials, the standard deviation of runs with the same
#: settings, the width of an interval.
_NOISY_TRIALS, _NOISY, _WIDE_INTERVAL = 0.25, 0.10, 1.5


def why_none(analysis: Analysis, *, has_left_out: bool) -> Conclusion:
    """Return the best explanation of why nothing is recommended.

    `has_left_out`: the sweep left something out, so there may be no candidate.
    """
    if analysis.excluded:
        return nothing_within(analysis, analysis.excluded)
    return (
        writers_do_not_wait(analysis)
        or nothing_measured(analysis)
        or too_noisy(analysis)
        or unfinished(analysis, has_left_out=has_left_out)
        or only_beyond(analysis)
        or present_beyond(analysis)
        or other_wait(analysis)
        or beyond_memory(analysis, analysis.present.observation)
        or only_unattributed(analysis)
        or no_difference(analysis)
    )


def writers_do_not_wait(analysis: Analysis) -> Conclusion | None:
    """Return that there is nothing to gain, or that writers wait for something else.

    None if no probe measured the waits, or if transfer settings were varied, which can help even if
    writers do not wait.
    """
    runs, present = analysis.runs, analysis.present
    candidates = runs.of_role(CANDIDATE)
    varies_transfer = any(runs.baseline.changed_transfer(each.setting) for each in candidates)
    stall_share = present.observation.stall_share
    if stall_share is None or stall_share >= NEGLIGIBLE_SHARE or varies_transfer:
        return None
    return other_wait(analysis) or WritersDoNotWait(present)


def other_wait(analysis: Analysis) -> OtherWait | None:
    """Return the longest other wait in write calls, if it is significant.

    It must be at least 10 % of the writers' time and at least as long as dirty throttling.
    """
    runs, seen = analysis.runs, analysis.present.observation
    waits = {cause: runs.cause_share(seen, cause) for cause in OTHER_WAITS}
    cause = max(waits, key=lambda name: waits[name])
    throttled = runs.cause_share(seen, Cause.THROTTLING)
    if waits[cause] < max(_MUCH, throttled):
        return None
    return OtherWait(analysis.present, cause, waits[cause], throttled)


def beyond_memory(analysis: Analysis, seen: Observation) -> BeyondMemory | None:
    """Return that the burst is too large for memory, for a run in which writers still waited.

    The prediction is for the best possible thresholds (`Model.rate_needed_bytes_per_s`), not for
    those that were tried.
    """
    model = analysis.model
    if model is None or seen.throttled_share < NEGLIGIBLE_SHARE:
        return None
    rate, memory = model.rate_needed_bytes_per_s(), model.memory_needed_bytes()
    return None if rate is None or memory is None else BeyondMemory(model, rate, memory)


def nothing_measured(analysis: Analysis) -> NothingMeasured | None:
    """Return that every other setting failed or was invalid."""
    runs = analysis.runs
    others = (*runs.of_role(CANDIDATE), *runs.of_role(RECHECK))
    problems = _problems(others)
    return NothingMeasured(problems) if problems and problems.count == len(others) else None


def _problems(trials: Sequence[Trial]) -> InvalidTrials | None:
    found = Counter(trial.problem for trial in trials if trial.problem)
    if not found:
        return None
    return InvalidTrials(sum(found.values()), len(trials), *found.most_common(1)[0])


def too_noisy(analysis: Analysis) -> TooNoisy | None:
    """Return the signs of noise that hides what the settings do."""
    problems, trials = _problems(analysis.runs.trials), len(analysis.runs.trials)
    is_much = problems and problems.count >= max(_FEWEST_INVALID, _NOISY_TRIALS * trials)
    deviation = analysis.noise.deviation
    narrowest = min(_repeated(analysis), key=_width, default=None)
    is_wide = narrowest and _width(narrowest) > _WIDE_INTERVAL and narrowest.includes(1.0)
    found = TooNoisy(
        problems if is_much else None,
        deviation if deviation > _NOISY else None,
        narrowest if is_wide else None,
    )
    return None if found == TooNoisy(None, None, None) else found


def _width(interval: Interval) -> float:
    return interval.high / max(interval.low, 1e-9)


def _repeated(analysis: Analysis) -> list[Interval]:
    """Return the intervals of more than one pair."""
    found = (comparison.interval for comparison in analysis.comparisons.values())
    return [interval for interval in found if interval and interval.count > 1]


def unfinished(analysis: Analysis, *, has_left_out: bool) -> Unfinished | None:
    """Return that the search has not ended, or that its finding has too few pairs."""
    runs = analysis.runs
    if any(len(pairs_of(runs, setting)) >= MIN_PAIRS for setting in runs.rechecked):
        return None
    asked = limits_of(runs.circumstances)
    has_gain = any(not asked.breaks(analysis.prices[each]) for each in analysis.search_gains)
    is_searched = runs.of_role(CANDIDATE) or has_left_out
    return None if not runs.rechecked and is_searched and not has_gain else Unfinished()


def only_beyond(analysis: Analysis) -> NothingWithin | None:
    """Return what was faster in the search but was not rechecked because it exceeds the limits."""
    beyond = excluded_in_search(analysis)
    return nothing_within(analysis, (beyond,)) if beyond else None


def excluded_in_search(analysis: Analysis) -> Excluded | None:
    """Return the fastest setting that has no pairs because it exceeds the limits."""
    gains = analysis.search_gains
    beyond = [setting for setting in gains if not analysis.keeps_limits(setting)]
    if not beyond:
        return None
    setting = min(beyond, key=lambda each: gains[each])
    why = analysis.limits.objection(analysis.prices[setting])
    return Excluded(setting, why, gains[setting], 0) if why else None


def nothing_within(analysis: Analysis, excluded: tuple[Excluded, ...]) -> NothingWithin:
    """Return that nothing faster is within the limits, and the best candidate that may be."""
    gains, are_new = analysis.search_gains, analysis.has_other_limits
    within = [setting for setting in gains if analysis.keeps_limits(setting)]
    if not within:
        return NothingWithin(excluded, None, None, are_new)
    setting = min(within, key=lambda each: gains[each])
    fastest_s = gains[setting] * statistics.median(analysis.runs.present_alone_s)
    return NothingWithin(excluded, setting, fastest_s, are_new)


def present_beyond(analysis: Analysis) -> PresentBeyond | None:
    """Return that the current settings exceed the limits, and a setting that does not."""
    why = analysis.limits.objection(analysis.present_price)
    return PresentBeyond(why, fastest_within(analysis)) if why else None


def fastest_within(analysis: Analysis) -> KeepsLimits | NoneKeepsLimits:
    """Return the fastest other measured setting that keeps the limits."""
    runs = analysis.runs
    times_s = {s: times for s, times in runs.timed_s.items() if s != runs.baseline.setting}
    within = [setting for setting in times_s if analysis.keeps_limits(setting)]
    if not within:
        return NoneKeepsLimits(analysis.has_other_limits)
    setting = min(within, key=lambda each: statistics.median(times_s[each]))
    present_s = runs.present_alone_s or [run.return_s for run in runs.valid_present]
    return KeepsLimits(
        setting=setting,
        price=analysis.prices[setting],
        times_s=summarize(times_s[setting]),
        present_s=statistics.median(present_s),
        limits=analysis.limits,
    )


def cost_of_limits(analysis: Analysis, ratio: float) -> CostOfLimits | None:
    """Return the excluded settings that are faster than a recommended one with that `ratio`."""
    searched = excluded_in_search(analysis)
    is_faster = searched is not None and is_gain(searched.ratio / ratio)
    beyond = (*analysis.excluded, *([searched] if searched and is_faster else []))
    return CostOfLimits(beyond) if beyond else None


def only_unattributed(analysis: Analysis) -> OnlyUnattributed | None:
    """Return the gains that are not attributable to the settings, if there are any."""
    gains = tuple(unattributed_gains(analysis))
    return OnlyUnattributed(gains) if gains else None


def unattributed_gains(analysis: Analysis) -> Iterator[UnattributedGain]:
    """Yield each faster setting whose gain is not attributable to it."""
    for setting, why in analysis.unattributed.items():
        interval = analysis.comparisons[setting].interval
        if interval is not None:
            yield UnattributedGain(setting, interval, why)


def no_difference(analysis: Analysis) -> Conclusion:
    """Return that no setting was significantly faster."""
    intervals = _repeated(analysis)
    if intervals:
        return NoGainInPairs(min(intervals, key=lambda interval: interval.estimate))
    candidates = analysis.runs.of_role(CANDIDATE)
    if not candidates:
        return AllLeftOut()
    best_s = min((each.valid.return_s for each in candidates if each.valid), default=None)
    return NoGainInSearch(best_s, analysis.present.return_s)
