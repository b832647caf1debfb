"""What a sweep came to, in words: the verdict, why no change, and the notes next to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from contracts.shared.units import counted, format_rate, format_seconds, format_size
from profiler.report.price import durable_text, objection_text
from sysctl.advice.advise import Recommendation
from sysctl.advice.analysis import Doubted, Excluded, TookNoPart
from sysctl.advice.conclusions import (
    AllLeftOut,
    BeyondMemory,
    Change,
    Conclusion,
    CostOfLimits,
    DoubtedGain,
    InvalidTrials,
    KeepsLimits,
    NoGain,
    NoGainInPairs,
    NoGainInSearch,
    NoneKeepsLimits,
    Note,
    NothingMeasured,
    NothingWithin,
    OnlyDoubted,
    OtherWait,
    PassedOver,
    PresentBeyond,
    TooNoisy,
    WritersDoNotWait,
)
from sysctl.evidence.comparison import MIN_GAIN, Side, is_gain
from sysctl.evidence.results import Observation
from sysctl.evidence.statistics import Interval, Repeats
from sysctl.search.extras import MOUNT, PAIRS, Doubt, Uncredited

#: Times the present time from which on a bound is only said to be larger: it says no more.
_LARGEST_SHARE = 10.0
#: Below it a speed-up is shown with two decimals, so that a small one does not read as none.
_SMALL = 2.0
#: Above it only that it is more.
_MOST = 100
#: Objects of that mean size make a pull one of many operations rather than of many bytes.
_SMALL_OBJECT_BYTES = 2**20
_WAITED_FOR: Mapping[str, str] = {
    "waiting for the device": "for the device",
    "other sleeping": "for locks, the journal or memory",
    "waiting for a CPU": "for a CPU",
}


def verdict_text(recommendation: Recommendation) -> str:
    """Return what a sweep came to, in a sentence or a few."""
    conclusion = recommendation.conclusion
    if isinstance(conclusion, Change):
        return _change(conclusion)
    return f"No change recommended: {_why_none(conclusion)}"


def note_texts(recommendation: Recommendation) -> tuple[str, ...]:
    """Return the sentences that hold next to the verdict."""
    return tuple(map(_note, recommendation.notes))


def _change(change: Change) -> str:
    """`5.4× faster (95% interval 5.1× to 5.7×, 4 pairs): 3.60 s instead of 19.5 s`."""
    interval = change.interval
    decimals = 2 if 1 / interval.high < _SMALL else 1
    estimate, least, most = (
        _speedup(ratio, decimals) for ratio in (interval.estimate, interval.high, interval.low)
    )
    return (
        f"{estimate} faster (95% interval {least} to {most}, {counted(interval.count, 'pair')}): "
        f"{format_seconds(change.best_s)} instead of {format_seconds(change.present_s)}"
    )


def _speedup(ratio: float, decimals: int) -> str:
    return f"more than {_MOST}×" if 1 / ratio > _MOST else f"{1 / ratio:.{decimals}f}×"


def _why_none(found: Conclusion) -> str:
    if isinstance(found, WritersDoNotWait):
        return _writers_do_not_wait(found.present)
    if isinstance(found, OtherWait):
        return _other_wait(found)
    if isinstance(found, BeyondMemory):
        return _beyond_memory(found)
    if isinstance(found, NothingMeasured):
        return _nothing_measured(found.problems)
    if isinstance(found, TooNoisy):
        return _too_noisy(found)
    if isinstance(found, NothingWithin):
        return _nothing_within(found)
    if isinstance(found, PresentBeyond):
        return (
            "nothing is faster within your limits, but the present settings are beyond them: "
            f"{objection_text(found.why)}. {_way(found.way)}"
        )
    return _no_difference(found)


def _no_difference(found: Conclusion) -> str:
    if isinstance(found, OnlyDoubted):
        return " ".join(map(_doubted, found.gains))
    if isinstance(found, NoGainInPairs):
        took = f"the best of the settings measured again took {share_text(found.best)}"
        return f"{took}, {_why_no_gain(found.best)}."
    if isinstance(found, NoGainInSearch):
        took = (
            "all the settings tried were stopped as hopeless"
            if found.best_s is None
            else f"the best of the settings tried took {format_seconds(found.best_s)}"
        )
        return (
            f"{took}, the present ones took {span_text(found.present_s)}: no gain that is worth "
            "measuring again."
        )
    if isinstance(found, AllLeftOut):
        return (
            "only the present settings were measured, as all else was left out. If the sweep was "
            "stopped, go on with `writewise sweep … --resume`."
        )
    return (
        "the sweep is not finished: its best setting has no two pairs with the present ones yet; "
        "go on with `writewise sweep … --resume`, or with a larger --budget."
    )


def _writers_do_not_wait(present: Side) -> str:
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
    return " ".join([sentence, *_kept_up(present), *_operations(seen)])


def _kept_up(present: Side) -> Iterator[str]:
    """That the device is as fast as the source, where it was seen to be."""
    durable_s = present.durable_s
    if durable_s is not None and durable_s <= 1.1 * present.return_s.largest:
        after = format_seconds(durable_s)
        yield f"All was on the device {after} after the start: it is as fast as the source."


def _other_wait(found: OtherWait) -> str:
    sentence = (
        f"writers waited {found.share:.0%} of their time {_WAITED_FOR[found.cause]} and "
        f"{found.throttled_share:.1%} in dirty throttling, the only wait that write-back settings "
        "shorten."
    )
    return " ".join([sentence, *_operations(found.present.observation)])


def _operations(seen: Observation) -> Iterator[str]:
    """What a pull of small objects asks of a volume."""
    if seen.objects and seen.bytes / seen.objects < _SMALL_OBJECT_BYTES:
        yield (
            f"The {counted(seen.objects, 'object')} have {format_size(seen.bytes / seen.objects)} "
            f"each, {seen.objects / seen.return_s:.0f} of them arrived per second: such a pull "
            "asks a volume for operations (IOPS) rather than for throughput."
        )


def _beyond_memory(found: BeyondMemory) -> str:
    model, rate = found.model, found.device_bytes_per_s
    device, memory = model.device_bytes_per_s, format_size(found.dirtyable_bytes)
    return (
        f"the burst of {format_size(model.burst_bytes)} is beyond this host's memory: no "
        f"thresholds let it return at the source's {format_rate(model.source_bytes_per_s)} where "
        f"{format_size(model.dirtyable_bytes)} can be dirty and the device writes "
        f"{format_rate(device)}. What would help: a volume that writes {format_rate(rate)}, "
        f"{rate / device:.1f} times as fast, to return after "
        f"{format_seconds(model.unthrottled_s())}; or an instance on which {memory} can be dirty "
        "(both as predicted, with the best thresholds)."
    )


def _nothing_measured(problems: InvalidTrials) -> str:
    of = f"{problems.times} of {counted(problems.count, 'trial')}"
    return f"no other setting could be measured ({of}: {problems.reason})."


def _too_noisy(found: TooNoisy) -> str:
    return (
        f"{'; '.join(_signs(found))}: what else this host, its volume or the network does hides "
        "what the settings do. Sweep again when it is quieter, or with a larger --budget."
    )


def _signs(found: TooNoisy) -> Iterator[str]:
    if found.invalid:
        count, times, reason = found.invalid.count, found.invalid.times, found.invalid.reason
        often = f"{times} times: " if times > 1 else ""
        yield f"{count} of {found.invalid.trials} trials were invalid ({often}{reason})"
    if found.deviation:
        yield (
            f"times under the same settings scatter by {found.deviation:.0%} (standard deviation)"
        )
    if found.narrowest:
        low, high = share(found.narrowest.low, 0), share(found.narrowest.high, 0)
        is_wild = found.narrowest.high > _LARGEST_SHARE
        yield (
            f"after {counted(found.narrowest.count, 'pair')} even the setting measured best may "
            f"take anything from {low} to {high} of the present time"
            + (", because the pairs disagree that much" if is_wild else "")
        )


def _nothing_within(found: NothingWithin) -> str:
    sentence = f"every setting that is faster costs too much. {_excluded(found.excluded)}"
    if found.fastest is None or found.fastest_s is None:
        if not found.are_new:
            return sentence
        return f"{sentence} The sweep looked for no others: sweep with these limits."
    remedy = ": sweep with these limits to have it measured in pairs" if found.are_new else ""
    return (
        f"{sentence} Of the others, {found.fastest} was fastest, "
        f"{format_seconds(found.fastest_s)} in one run{remedy}."
    )


def _excluded(excluded: Iterable[Excluded]) -> str:
    """`dirty_ratio=80 took 19% of the present time: 1.70 GiB at risk, more than 1.00 GiB.`"""
    return " ".join(
        f"{each.setting} took {each.ratio:.0%} of the present time"
        f"{'' if each.pairs else ' in one run'}: {objection_text(each.why)}."
        for each in excluded
    )


def _way(way: KeepsLimits | NoneKeepsLimits) -> str:
    if isinstance(way, NoneKeepsLimits):
        remedy = ": sweep with them" if way.are_new else ""
        return f"No other setting that was measured keeps your limits{remedy}."
    took_s = way.times_s.median
    is_limited = way.limits.max_durable_s is not None
    durable = f", durable after {durable_text(way.price)}" if is_limited else ""
    return (
        f"To keep your limits: {way.setting}, {format_size(way.price.at_risk_bytes)} at risk"
        f"{durable}; it took {format_seconds(took_s)} ({counted(way.times_s.count, 'run')}), "
        f"{took_s / way.present_s:.0%} of the present time."
    )


def _note(note: Note) -> str:
    if isinstance(note, BeyondMemory):
        return f"No thresholds gain more: {_beyond_memory(note)}"
    if isinstance(note, CostOfLimits):
        return f"Beyond your limits: {_excluded(note.excluded)}"
    if isinstance(note, (KeepsLimits, NoneKeepsLimits)):
        return _way(note)
    if isinstance(note, DoubtedGain):
        return f"Also measured in pairs: {_doubted(note)}"
    why = _why_no_gain(note.interval) if isinstance(note, NoGain) else _why_passed_over(note)
    return f"Also measured in pairs: {note.setting} took {share_text(note.interval)}, {why}."


def _why_passed_over(note: PassedOver) -> str:
    if note.is_as_fast:
        return "as fast, and no cheaper"
    return f"not as fast as {note.faster}" if note.faster else "not as fast"


def _doubted(gain: DoubtedGain) -> str:
    return f"{gain.setting} took {share_text(gain.interval)}, but {_doubt(gain.why)}."


def _doubt(why: Doubted) -> str:
    if isinstance(why, TookNoPart):
        what = "nothing that it changes took" if why.is_all else "its thresholds took no"
        slept = f"writers slept in dirty throttling for {why.stall_share:.1%} of their time"
        return f"{what} part: {slept}"
    return uncredited_text(why)


def uncredited_text(why: Uncredited) -> str:
    """Return why a setting's extras do not count, to follow `took 90% of the time, but `."""
    is_mount = set(why.extras) == {MOUNT}
    named = f"mount={why.extras[MOUNT]}" if is_mount else ", ".join(why.extras)
    if why.doubt is Doubt.NOT_COMPARED:
        return f"it was not measured next to the same settings without {named}"
    if why.doubt is Doubt.FEW_PAIRS:
        few = counted(why.pairs, "pair")
        return f"it was compared without {named} in only {few}, and it takes {PAIRS}"
    return f"the pairs with and without {named} do not show a gain of {MIN_GAIN:.0%}"


def _why_no_gain(interval: Interval) -> str:
    """Why pairs show no gain worth a change, to follow `took 98% of the present time, `."""
    if interval.includes(1.0):
        return "not distinguishable from the present settings"
    if interval.estimate > 1:
        return "slower than the present settings"
    if not is_gain(interval.estimate):
        return f"a gain of less than {MIN_GAIN:.0%}, which is not worth a change"
    return "a gain that chance may explain, as the pairs were looked at more than once"


def span_text(times_s: Repeats) -> str:
    """`19.0 s to 20.3 s`; of a single run its time."""
    ends = dict.fromkeys((times_s.smallest, times_s.largest))
    return " to ".join(map(format_seconds, ends))


def share_text(interval: Interval) -> str:
    """`17.3% of the present time (95% interval 15.2% to 21.1%, 3 pairs)`."""
    bounds = f"95% interval {share(interval.low)} to {share(interval.high)}, "
    count = counted(interval.count, "pair")
    return (
        f"{share(interval.estimate)} of the present time "
        f"({bounds if interval.count > 1 else ''}{count})"
    )


def share(part: float, decimals: int = 1) -> str:
    """`17.3%`; of `_LARGEST_SHARE` and more only that it is more."""
    if part > _LARGEST_SHARE:
        return f"more than {_LARGEST_SHARE:,.0%}"
    return f"{part:.{decimals}%}"
