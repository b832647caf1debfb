# SPDX-License-Identifier: Apache-2.0
"""The result of a sweep in words: the verdict, why no change is recommended, and the notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from contracts.causes import Cause
from contracts.shared.units import (
    counted,
    exact_size,
    format_count,
    format_rate,
    format_seconds,
    format_size,
)
from profiler.report.price import durable_text, objection_text
from profiler.report.volume_words import needed_text
from sysctl.advice.advise import Recommendation
from sysctl.advice.analysis import Excluded, NotAttributable, NotThrottled
from sysctl.advice.conclusions import (
    AllLeftOut,
    BeyondMemory,
    Change,
    Conclusion,
    CostOfLimits,
    InvalidTrials,
    KeepsLimits,
    NoGain,
    NoGainInPairs,
    NoGainInSearch,
    NoneKeepsLimits,
    Note,
    NothingMeasured,
    NothingWithin,
    OnlyUnattributed,
    OtherWait,
    PassedOver,
    PresentBeyond,
    Sampled,
    TooNoisy,
    UnattributedGain,
    Unfinished,
    WritersDoNotWait,
)
from sysctl.advice.volume_advice import VolumeAdvice
from sysctl.evidence.comparison import MIN_GAIN, Side, is_gain
from sysctl.evidence.results import Observation
from sysctl.evidence.statistics import Interval, Repeats
from sysctl.search.extras import MOUNT, PAIRS, ExtrasNotCounted, WhyNotCounted

#: A bound above this multiple of the current time is only reported as larger.
_LARGEST_SHARE = 10.0
#: A smaller speed-up is printed with two decimals, so that it does not look like none.
_SMALL = 2.0
#: A larger speed-up is only reported as more.
_MOST = 100
#: Below this mean object size, operations rather than bytes decide a pull's time.
_SMALL_OBJECT_BYTES = 2**20
_WAITED_FOR: Mapping[str, str] = {
    Cause.DEVICE: "for the device",
    Cause.SLEEPING: "for locks, the journal or memory",
    Cause.QUEUED: "for a CPU",
}

#: Their reason continues the headline; alone it says too little.
_NEEDS_HEADLINE = (NothingMeasured, AllLeftOut, NothingWithin, PresentBeyond)


def verdict_text(recommendation: Recommendation) -> str:
    """Return the result of a sweep in one or a few sentences."""
    conclusion = recommendation.conclusion
    if isinstance(conclusion, Change):
        return _change(conclusion)
    why = why_none_text(recommendation)
    if isinstance(conclusion, _NEEDS_HEADLINE):
        why = f"{headline_text(conclusion)}. {why[:1].upper()}{why[1:]}"
    return f"No change recommended: {why}"


def note_texts(recommendation: Recommendation) -> tuple[str, ...]:
    """Return the notes on the verdict."""
    return tuple(_note(each, recommendation) for each in recommendation.notes)


def _change(change: Change) -> str:
    """Return `5.4× faster (95% interval 5.1× to 5.7×, 4 pairs): 3.60 s instead of 19.5 s`."""
    times = f"{format_seconds(change.best_s)} instead of {format_seconds(change.present_s)}"
    return f"{gain_text(change)}: {times}"


def gain_text(change: Change) -> str:
    """Return how much faster it is: `5.4× faster (95% interval 5.1× to 5.7×, 4 pairs)`."""
    interval = change.interval
    decimals = 2 if 1 / interval.high < _SMALL else 1
    estimate, least, most = (
        _speedup(ratio, decimals) for ratio in (interval.estimate, interval.high, interval.low)
    )
    return f"{estimate} faster (95% interval {least} to {most}, {counted(interval.count, 'pair')})"


def _speedup(ratio: float, decimals: int) -> str:
    return f"more than {_MOST}×" if 1 / ratio > _MOST else f"{1 / ratio:.{decimals}f}×"


def headline_text(found: Conclusion) -> str:
    """Return in a few words why no change is recommended; it follows a colon."""
    return _HEADLINES[type(found)]


_HEADLINES: Mapping[type[object], str] = {
    WritersDoNotWait: "write-back does not hold this pull up",
    OtherWait: "the writers wait for something that these settings do not change",
    BeyondMemory: "the pull is larger than the memory that may hold unwritten data",
    NothingMeasured: "no other setting could be measured",
    AllLeftOut: "no other setting was tried",
    TooNoisy: "the times vary too much to tell the settings apart",
    NoGainInPairs: f"no setting saves {MIN_GAIN:.0%} or more of the time",
    NoGainInSearch: f"no setting saves {MIN_GAIN:.0%} or more of the time",
    OnlyUnattributed: "the faster runs cannot be credited to the settings",
    NothingWithin: "every faster setting exceeds your limits",
    PresentBeyond: "no setting within your limits is faster, and the current settings exceed them",
    Unfinished: "the sweep is not finished",
}


def why_none_text(recommendation: Recommendation) -> str:
    """Return why no change is recommended, in one or a few sentences; it follows a colon.

    It does not repeat `headline_text`.
    """
    found = recommendation.conclusion
    if isinstance(found, WritersDoNotWait):
        return _writers_do_not_wait(found.present)
    if isinstance(found, OtherWait):
        return _other_wait(found)
    if isinstance(found, BeyondMemory):
        return _beyond_memory(found, recommendation.volume)
    if isinstance(found, NothingMeasured):
        return _nothing_measured(found.problems)
    if isinstance(found, TooNoisy):
        return _too_noisy(found)
    if isinstance(found, NothingWithin):
        return _nothing_within(found)
    if isinstance(found, PresentBeyond):
        why = objection_text(found.why)
        return f"current settings: {why}. {_alternative(found.alternative)}"
    return _no_difference(found)


def _no_difference(found: Conclusion) -> str:
    if isinstance(found, OnlyUnattributed):
        return " ".join(map(_unattributed, found.gains))
    if isinstance(found, NoGainInPairs):
        took = f"the best of the settings measured again took {share_text(found.best)}"
        return f"{took}, {_why_no_gain(found.best)}."
    if isinstance(found, NoGainInSearch):
        took = (
            "all settings tried were stopped because they could no longer win"
            if found.best_s is None
            else f"the best of the settings tried took {format_seconds(found.best_s)}"
        )
        return (
            f"{took}, the current ones took {span_text(found.present_s)}: the gain is too small to "
            "be worth measuring again."
        )
    if isinstance(found, AllLeftOut):
        return (
            "all others were left out. If the sweep was stopped, continue it with "
            "`writewise sweep … --resume`."
        )
    return (
        "the best setting does not yet have two pairs with the current ones. Continue with "
        "`writewise sweep … --resume`, or with a larger --budget."
    )


def _writers_do_not_wait(present: Side) -> str:
    seen, freerun_bytes = present.observation, present.thresholds.freerun_bytes
    brought = format_rate(seen.bytes / seen.return_s)
    if seen.peak_dirty_bytes < freerun_bytes:
        sentence = (
            f"writers never waited: the source delivered {brought}, at most "
            f"{format_size(seen.peak_dirty_bytes)} were not yet on the device at any time, and the "
            f"kernel slows writers down only from {format_size(freerun_bytes)}. No write-back "
            "setting can help."
        )
    else:
        sentence = (
            f"writers slept {seen.throttled_share:.1%} of their time in dirty throttling, too "
            f"little for a write-back setting to save {MIN_GAIN:.0%} of "
            f"{format_seconds(seen.return_s)}; the source delivered {brought}."
        )
    return " ".join([sentence, *_kept_up(present), *_operations(seen)])


def _kept_up(present: Side) -> Iterator[str]:
    """Yield that the device is as fast as the source, if the runs show it."""
    durable_s = present.durable_s
    if durable_s is not None and durable_s <= 1.1 * present.return_s.largest:
        after = format_seconds(durable_s)
        yield f"All data was on the device {after} after the start: it is as fast as the source."


def _other_wait(found: OtherWait) -> str:
    sentence = (
        f"writers waited {found.share:.0%} of their time {_WAITED_FOR[found.cause]} and "
        f"{found.throttled_share:.1%} in dirty throttling, the only wait that write-back settings "
        "shorten."
    )
    return " ".join([sentence, *_operations(found.present.observation)])


def _operations(seen: Observation) -> Iterator[str]:
    """Yield what a pull of small objects needs from a volume."""
    if seen.objects and seen.bytes / seen.objects < _SMALL_OBJECT_BYTES:
        yield (
            f"The {counted(seen.objects, 'object')} have {format_size(seen.bytes / seen.objects)} "
            f"each, and {seen.objects / seen.return_s:.0f} of them arrived per second: such a pull "
            "needs operations per second (IOPS) of a volume rather than throughput."
        )


def _beyond_memory(found: BeyondMemory, volume: VolumeAdvice) -> str:
    model, rate = found.model, found.device_bytes_per_s
    device, memory = model.device_bytes_per_s, format_size(found.dirtyable_bytes)
    returns = format_seconds(model.unthrottled_s())
    needed = needed_text(volume, format_rate(rate), f"{rate / device:.1f}", returns)
    return (
        f"the pull of {format_size(model.burst_bytes)} does not fit this host's memory: no "
        f"thresholds let it return at the source's {format_rate(model.source_bytes_per_s)} while "
        f"{format_size(model.dirtyable_bytes)} can be dirty and the device writes "
        f"{format_rate(device)}. What would help: {needed}; or an instance on which {memory} can "
        "be dirty (both predicted, with the best thresholds)."
    )


def _nothing_measured(problems: InvalidTrials) -> str:
    of = f"{problems.times} of {counted(problems.count, 'trial')}"
    return f"{of}: {problems.reason}."


def _too_noisy(found: TooNoisy) -> str:
    return (
        f"{'; '.join(_signs(found))}. Other work on this host, its volume or the network hides "
        "the effect of the settings. Sweep again when it is quieter, or with a larger --budget."
    )


def _signs(found: TooNoisy) -> Iterator[str]:
    if found.invalid:
        count, times, reason = found.invalid.count, found.invalid.times, found.invalid.reason
        often = f"{times} times: " if times > 1 else ""
        yield f"{count} of {found.invalid.trials} trials were invalid ({often}{reason})"
    if found.deviation:
        yield (f"times under the same settings vary by {found.deviation:.0%} (standard deviation)")
    if found.narrowest:
        low, high = share(found.narrowest.low, 0), share(found.narrowest.high, 0)
        is_wild = found.narrowest.high > _LARGEST_SHARE
        yield (
            f"after {counted(found.narrowest.count, 'pair')} even the best-known setting may take "
            f"anything from {low} to {high} of the current time"
            + (", because the pairs disagree that much" if is_wild else "")
        )


def _nothing_within(found: NothingWithin) -> str:
    sentence = f"measured: {_excluded(found.excluded)}"
    if found.fastest is None or found.fastest_s is None:
        if not found.are_new:
            return sentence
        return f"{sentence} The sweep did not search within these limits. Run it again with them."
    remedy = ": sweep with these limits to measure it in pairs" if found.are_new else ""
    return (
        f"{sentence} Of the others, {found.fastest} was the fastest, "
        f"{format_seconds(found.fastest_s)} in one run{remedy}."
    )


def _excluded(excluded: Iterable[Excluded]) -> str:
    """`dirty_ratio=80 took 19% of the current time: 1.70 GiB at risk, more than 1.00 GiB.`"""
    return " ".join(
        f"{each.setting} took {each.ratio:.0%} of the current time"
        f"{'' if each.pairs else ' in one run'}: {objection_text(each.why)}."
        for each in excluded
    )


def _alternative(way: KeepsLimits | NoneKeepsLimits) -> str:
    if isinstance(way, NoneKeepsLimits):
        remedy = ": sweep with them" if way.are_new else ""
        return f"No other measured setting is within your limits{remedy}."
    took_s = way.times_s.median
    is_limited = way.limits.max_durable_s is not None
    durable = f", durable after {durable_text(way.price)}" if is_limited else ""
    return (
        f"To stay within your limits: {way.setting}, {format_size(way.price.at_risk_bytes)} at risk"
        f"{durable}; it took {format_seconds(took_s)} ({counted(way.times_s.count, 'run')}), "
        f"{took_s / way.present_s:.0%} of the current time."
    )


def _note(note: Note, recommendation: Recommendation) -> str:
    if isinstance(note, Sampled):
        return _sampled(note)
    if isinstance(note, BeyondMemory):
        return f"No thresholds gain more: {_beyond_memory(note, recommendation.volume)}"
    if isinstance(note, CostOfLimits):
        return f"Faster, but beyond your limits: {_excluded(note.excluded)}"
    if isinstance(note, (KeepsLimits, NoneKeepsLimits)):
        return _alternative(note)
    if isinstance(note, UnattributedGain):
        return f"Also measured in pairs: {_unattributed(note)}"
    why = _why_no_gain(note.interval) if isinstance(note, NoGain) else _why_passed_over(note)
    return f"Also measured in pairs: {note.setting} took {share_text(note.interval)}, {why}."


def _sampled(note: Sampled) -> str:
    """Return how far the advice from a sample applies to a pull of everything."""
    pulled, whole = format_size(note.pulled_bytes), format_size(note.whole_bytes)
    freerun = format_size(note.freerun_bytes)
    first = (
        f"Only a sample was pulled: {pulled} of {whole} "
        f"({counted(note.pulled_objects, 'object')} of {format_count(note.whole_objects)})."
    )
    if note.hides_waits:
        return (
            f"{first} The sample fits below the {freerun} from which the kernel slows writers "
            f"down, and the whole does not: this sweep cannot show what write-back costs the real "
            f"job. Sweep with --max-bytes {exact_size(note.enough_bytes)} or more."
        )
    return (
        f"{first} Writers are throttled above {freerun} of unwritten data"
        f"{' with the recommended settings' if note.is_of_change else ''}; a pull of all writes "
        f"{note.whole_bytes / max(1, note.pulled_bytes):.1f} times as much, and may reach it."
    )


def _why_passed_over(note: PassedOver) -> str:
    if note.is_as_fast:
        return "as fast, but not less risky"
    return f"not as fast as {note.faster}" if note.faster else "not as fast"


def _unattributed(gain: UnattributedGain) -> str:
    return f"{gain.setting} took {share_text(gain.interval)}, but {_why_unattributed(gain.why)}."


def _why_unattributed(why: NotAttributable) -> str:
    if isinstance(why, NotThrottled):
        what = "its changes" if why.is_all else "its thresholds"
        slept = f"writers slept in dirty throttling for {why.stall_share:.1%} of their time"
        return f"{what} cannot be the reason: {slept}"
    return extras_text(why)


def extras_text(why: ExtrasNotCounted) -> str:
    """Return why a setting's extras do not count, to follow `took 90% of the time, but `."""
    is_mount = set(why.extras) == {MOUNT}
    named = f"mount={why.extras[MOUNT]}" if is_mount else ", ".join(why.extras)
    if why.why is WhyNotCounted.NOT_COMPARED:
        return f"it was not measured next to the same settings without {named}"
    if why.why is WhyNotCounted.FEW_PAIRS:
        few = counted(why.pairs, "pair")
        return f"it was compared without {named} in only {few}, and {PAIRS} are needed"
    return f"the pairs with and without {named} do not show a gain of {MIN_GAIN:.0%}"


def _why_no_gain(interval: Interval) -> str:
    """Return why pairs show too little gain, to follow `took 98% of the current time, `."""
    if interval.includes(1.0):
        return "not distinguishable from the current settings"
    if interval.estimate > 1:
        return "slower than the current settings"
    if not is_gain(interval.estimate):
        return f"a gain of less than {MIN_GAIN:.0%}, which is not worth a change"
    return "a gain that may be chance, since the pairs were looked at more than once"


def span_text(times_s: Repeats) -> str:
    """Return `19.0 s to 20.3 s`, or only the time of a single run."""
    ends = dict.fromkeys((times_s.smallest, times_s.largest))
    return " to ".join(map(format_seconds, ends))


def share_text(interval: Interval) -> str:
    """Return `17.3% of the current time (95% interval 15.2% to 21.1%, 3 pairs)`."""
    bounds = f"95% interval {share(interval.low)} to {share(interval.high)}, "
    count = counted(interval.count, "pair")
    return (
        f"{share(interval.estimate)} of the current time "
        f"({bounds if interval.count > 1 else ''}{count})"
    )


def share(part: float, decimals: int = 1) -> str:
    """Return `17.3%`; above `_LARGEST_SHARE` only that it is more."""
    if part > _LARGEST_SHARE:
        return f"more than {_LARGEST_SHARE:,.0%}"
    return f"{part:.{decimals}%}"


def stall_text(seen: Observation) -> str:
    """Return `12%`, or `not measured` without probes."""
    return "not measured" if seen.stall_share is None else f"{seen.stall_share:.0%}"
