# SPDX-License-Identifier: Apache-2.0
"""The advice on the volume in sentences: what limits the device, and which volume would help."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.shared.text import printable
from contracts.shared.units import counted, format_rate, format_seconds
from profiler.report.over_limit import exceeded_text
from profiler.report.plan_words import percent, usd, volume_phrase
from sysctl.advice.advise import Recommendation
from sysctl.advice.conclusions import BeyondMemory
from sysctl.advice.device_rate import DeviceRate, Fit
from sysctl.advice.volume_advice import Aim, Choice, OutOfReach, VolumeAdvice
from sysctl.evidence.circumstances import Circumstances, KnownVolume
from sysctl.volume.limits import LimitedBy

_OF_INSTANCE = (LimitedBy.INSTANCE, LimitedBy.INSTANCE_CREDITS)
#: Fits that a summary must not hide.
_NOTABLE = (Fit.WITHOUT_CREDITS, Fit.BETWEEN, Fit.ABOVE, Fit.BELOW)


def known_volume_text(circumstances: Circumstances) -> str | None:
    """Return `st1, 500 GiB (vol-0abc), 96.3 % of its credits at the start (--credits)`."""
    volume, node = circumstances.node_class.volume, circumstances.node
    words = list(_known_words(volume)) if volume else []
    if not words and node.volume_id is None:
        return None
    text = ", ".join(words) or "type and size unknown"
    identity = f" ({printable(node.volume_id)})" if node.volume_id else ""
    credits = node.credits
    if credits is None:
        return f"{text}{identity}"
    balance = f"{percent(credits.percent / 100)} of its credits at the start"
    return f"{text}{identity}, {balance} ({printable(credits.source)})"


def _known_words(volume: KnownVolume) -> Iterator[str]:
    yield printable(volume.type) if volume.type else "type unknown"
    if volume.size_gib is not None:
        yield f"{volume.size_gib:,} GiB"
    if volume.iops is not None:
        yield f"{volume.iops:,} IOPS"
    if volume.mib_per_s is not None:
        yield f"{volume.mib_per_s:,g} MiB/s"


def summary_texts(recommendation: Recommendation) -> list[str]:
    """Return the sentences for one screen; none if the volume is unknown or decides nothing."""
    advice = recommendation.volume
    rate = advice.rate
    if rate is None or advice.volume is None:
        return []
    is_notable = rate.fit in _NOTABLE or rate.is_never_over or rate.limited_by in _OF_INSTANCE
    texts = [rate_text(advice, rate)] if is_notable or rate.exhausted else []
    is_said = isinstance(recommendation.conclusion, BeyondMemory)
    if advice.choice and not is_said:
        texts.append(choice_text(recommendation, advice.choice))
    return texts


def headline_text(recommendation: Recommendation) -> str | None:
    """Return the recommendation if it is another volume; None if it is not."""
    advice = recommendation.volume
    if advice.volume is None or not advice.is_recommendation or advice.choice is None:
        return None
    keeps = "within your limits " if advice.choice.aim is Aim.WITHIN_LIMIT else ""
    name = volume_phrase(advice.choice.other.plan)
    return f"Recommended: another volume, {name}; no setting {keeps}helps."


def rate_text(advice: VolumeAdvice, rate: DeviceRate) -> str:
    """Return what the measured rate is made of, in one to three sentences."""
    return " ".join([_rate_sentence(advice, rate), *_counted(rate), *_exhausted(rate)])


def _rate_sentence(advice: VolumeAdvice, rate: DeviceRate) -> str:
    wrote = f"The device wrote {format_rate(rate.bytes_per_s)}"
    if rate.fit is Fit.KEEPS_UP:
        source = format_rate(rate.source_bytes_per_s)
        return f"The device kept up with the source ({source}): a faster volume would not help."
    if rate.fit is Fit.UNKNOWN:
        source = format_rate(rate.source_bytes_per_s)
        return f"{wrote}, less than the {source} of the source: the device is the limit."
    what = _what(advice)
    full = format_rate(rate.states[0].bytes_per_s)
    least = format_rate(rate.states[-1].bytes_per_s)
    if rate.fit is Fit.ABOVE:
        return (
            f"{wrote}, more than the {full} that {what} allows: it is another volume, or it was "
            "changed."
        )
    if rate.fit is Fit.BELOW:
        return (
            f"{wrote}, less than the {least} that {what} always allows: small I/Os, other programs "
            "or a snapshot slow it down, and another volume may not help."
        )
    if rate.fit is Fit.BETWEEN:
        whose, advised = "", ""
        if rate.did_instance_run_out:
            whose = "the instance's EBS "
            advised = "; a larger instance has more EBS bandwidth, another volume does not"
        return (
            f"{wrote}, between the {full} that {what} allows with credits and the {least} without: "
            f"{whose}credits ran out in the runs, or others used the volume or the "
            f"instance{advised}."
        )
    return f"{wrote}, as {what} allows{_with_credits(rate)}: {_limit(rate)}."


def _what(advice: VolumeAdvice) -> str:
    name = volume_phrase(advice.current) if advice.current else "the volume"
    return f"{name} on {advice.instance.name}" if advice.instance else name


def _with_credits(rate: DeviceRate) -> str:
    if rate.fit is Fit.WITHOUT_CREDITS:
        return f" without credits ({format_rate(rate.states[0].bytes_per_s)} with)"
    return " with credits" if len(rate.states) > 1 else ""


def _limit(rate: DeviceRate) -> str:
    if rate.limited_by in _OF_INSTANCE:
        had = "has no EBS credits left" if rate.fit is Fit.WITHOUT_CREDITS else "is the limit"
        return f"the instance {had}; a larger one has more EBS bandwidth, another volume does not"
    if rate.fit is Fit.WITHOUT_CREDITS:
        return "its credits had run out"
    return "the volume is the limit"


def _counted(rate: DeviceRate) -> Iterator[str]:
    """Yield what EBS counted in a run."""
    over, limit = rate.over, rate.over_limit
    if over is None:
        return
    if limit is None:
        observed = format_seconds(over.observed_s)
        yield f"EBS counted no limit in {observed}: something else slows the device down."
        return
    yield f"EBS counted: {exceeded_text(over, limit)}."


def _exhausted(rate: DeviceRate) -> Iterator[str]:
    if rate.exhausted:
        yield (
            f"{counted(rate.exhausted, 'trial')} may have had no credits and "
            f"{'is' if rate.exhausted == 1 else 'are'} invalid: `writewise plan --results` shows "
            "how many pulls they last for."
        )


def choice_text(recommendation: Recommendation, choice: Choice) -> str:
    """Return what the chosen volume would do, and its price."""
    other, present = choice.other, recommendation.present
    name = volume_phrase(other.plan)
    returns, durable = format_seconds(other.return_s), format_seconds(other.durable_s)
    now = format_seconds(present.return_s.median)
    if choice.aim is Aim.WITHIN_LIMIT:
        text = f"On {name} the pull is durable after {durable}{_instead(recommendation)}"
    elif choice.aim is Aim.SAME_RETURN:
        text = (
            f"With the current settings on {name} the pull returns in {returns}, and is "
            f"durable after {durable}{_instead(recommendation)}"
        )
    else:
        best = "with the best thresholds " if choice.aim is Aim.BEST_THRESHOLDS else ""
        text = (
            f"On {name} the pull {best}returns in {returns} instead of {now}, and is durable after "
            f"{durable}{_instead(recommendation)}"
        )
    return f"{text} (predicted), for {price_text(recommendation.volume, choice)}."


def _instead(recommendation: Recommendation) -> str:
    price = recommendation.price or recommendation.present_price
    return "" if price.durable_s is None else f" instead of {format_seconds(price.durable_s)}"


def price_text(advice: VolumeAdvice, choice: Choice) -> str:
    """Return `$32.80 a month, $21.55 more (us-east-1, 2026-08-12)`."""
    more = advice.more_usd(choice.other)
    than = ""
    if more is not None and round(abs(more), 2):
        than = f", ${abs(more):,.2f} {'more' if more > 0 else 'less'}"
    return f"{usd(choice.other.plan.monthly_usd)}{than} ({advice.prices.origin})"


def out_of_reach_text(advice: VolumeAdvice, found: OutOfReach) -> str:
    """Return that no volume meets the aim, and why."""
    needed = format_rate(found.needed_bytes_per_s)
    if found.limited_by in _OF_INSTANCE and advice.instance:
        return (
            f"No volume writes {needed} on {advice.instance.name}, because the instance's EBS "
            "bandwidth is lower: that needs a larger instance."
        )
    return f"No EBS volume of {advice.capacity_gib:,} GiB or more writes {needed}."


def needed_text(advice: VolumeAdvice, rate: str, times: str, returns: str) -> str:
    """Return what would help a pull beyond memory, in place of memory."""
    text = f"a volume that writes {rate}, {times} times as fast, to return after {returns}"
    choice = advice.choice
    if choice and choice.aim is Aim.BEST_THRESHOLDS:
        name = volume_phrase(choice.other.plan)
        return f"{text}; the cheapest on EBS is {name}, {price_text(advice, choice)}"
    limited = advice.rate.limited_by if advice.rate else None
    if isinstance(advice.outcome, OutOfReach):
        limited = advice.outcome.limited_by
    if limited in _OF_INSTANCE:
        return f"an instance with EBS bandwidth for {rate}, and {text}"
    return text
