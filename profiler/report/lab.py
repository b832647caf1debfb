# SPDX-License-Identifier: Apache-2.0
"""The lab's volume in words: what it emulates, its credits and its present limits."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.shared.units import format_rate, format_size
from profiler.lab.cap import CapLimits
from profiler.lab.emulated import Emulated
from profiler.lab.follower import BucketNow, CreditsNow


def limits_text(limits: CapLimits) -> str:
    """Return a rate, and the IOPS if they are limited."""
    iops = "" if limits.iops is None else f", {limits.iops} IOPS"
    return f"{format_rate(limits.rate_bytes_per_s)}{iops}"


def volume_lines(emulated: Emulated | None, now: CreditsNow | None) -> Iterator[str]:
    """Yield what the volume is, its limits now, and its credits; nothing if it emulates none."""
    if emulated is None:
        return
    yield f"volume       {emulated}"
    if now is None:
        yield f"limits       {limits_text(emulated.all_limits()[0])}"
        return
    present = limits_text(CapLimits(now.rate_bytes_per_s, now.iops))
    yield f"limits now   {present}, by the {now.limited_by}"
    for bucket in now.buckets:
        yield f"credits      {_level(bucket)}"


def _level(bucket: BucketNow) -> str:
    share = f"{bucket.level / bucket.capacity:.0%}"
    if bucket.unit == "bytes":
        size = f"{format_size(round(bucket.level))} of {format_size(round(bucket.capacity))}"
    else:
        size = f"{bucket.level:,.0f} of {bucket.capacity:,.0f} {bucket.unit}"
    return f"{share} of the {bucket.owner}'s: {size}"
