# SPDX-License-Identifier: Apache-2.0
"""The time over the limits of EBS volumes: sentences for the terminal, and figures for JSON."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.shared.text import printable
from contracts.shared.units import format_count, format_rate, format_seconds
from profiler.watch.volumes import VolumeUse
from sysctl.evidence.over_limit import EbsLimit, OverLimit

_NS_PER_US, _NS_PER_S = 1000, 10**9
#: The names of the counters in JSON, in the order of `EbsLimit` and `LogPage.exceeded_us`.
_NAMES = ("volume_iops", "volume_throughput", "instance_iops", "instance_throughput")


def volume_lines(uses: Sequence[VolumeUse]) -> list[str]:
    """Return a line for each EBS volume: how long it, and the instance, were over a limit."""
    return [f"{_name(use)}: {_finding(use)}." for use in uses]


def _name(use: VolumeUse) -> str:
    return printable(f"{use.volume.disk} ({use.volume.volume_id})")


def _finding(use: VolumeUse) -> str:
    over = use.over_limit
    if over is None:
        why = use.problem or "there was no time between two readings"
        return f"the time over the limits of EBS is unknown: {printable(why)}"
    exceeded = [(limit, time_s) for limit, time_s in over.seconds.items() if time_s]
    observed = format_seconds(over.observed_s)
    if not exceeded:
        return f"neither the volume nor the instance was over its EBS limits in {observed}"
    parts = (
        f"the {limit.value} limit for {format_seconds(time_s)} ({over.share(limit):.0%})"
        for limit, time_s in exceeded
    )
    return f"in {observed} it exceeded {', '.join(parts)}{_let_through(over)}"


def _let_through(over: OverLimit) -> str:
    rate, ops = over.at_limit_rate_bytes_per_s, over.at_limit_ops_per_s
    if rate is None or ops is None:
        return ""
    return f"; at the limit it got {format_rate(rate)} and {format_count(round(ops))} IOPS"


def exceeded_text(over: OverLimit, limit: EbsLimit) -> str:
    """Return `the volume throughput limit was exceeded 60% of the time`."""
    return f"the {limit.value} limit was exceeded {over.share(limit):.0%} of the time"


def short_text(over: OverLimit | None) -> str:
    """Return ` · volume throughput limit 60%` for a line on a trial; "" if none was exceeded."""
    limit = over.longest if over else None
    return f" · {limit.value} limit {over.share(limit):.0%}" if over and limit else ""


def volumes_document_ns(uses: Sequence[VolumeUse]) -> list[dict[str, object]]:
    """Return each volume with its times in ns; they are None if they are unknown."""
    return [_document(use, "ns", _NS_PER_S) for use in uses]


def volumes_document_s(uses: Sequence[VolumeUse]) -> list[dict[str, object]]:
    """Return the same with times in s."""
    return [_document(use, "s", None) for use in uses]


def _document(use: VolumeUse, unit: str, per_s: int | None) -> dict[str, object]:
    over = use.over_limit

    def time(time_s: float | None) -> float | None:
        return time_s if time_s is None or per_s is None else round(time_s * per_s)

    times_s = tuple(over.seconds.values()) if over else (None,) * len(_NAMES)
    return {
        "disk": use.volume.disk,
        "volume_id": use.volume.volume_id,
        f"observed_{unit}": time(over.observed_s if over else None),
        **{f"{name}_over_{unit}": time(each) for name, each in zip(_NAMES, times_s)},
        f"at_limit_{unit}": time(over.at_limit_s if over else None),
        "at_limit_rate_bytes_per_s": over.at_limit_rate_bytes_per_s if over else None,
        "at_limit_ops_per_s": over.at_limit_ops_per_s if over else None,
        "problem": use.problem,
    }


def course_document(uses: Sequence[VolumeUse]) -> list[dict[str, object]]:
    """Return each volume's counters since the first reading, a column for each."""
    return [_course(use) for use in uses]


def _course(use: VolumeUse) -> dict[str, object]:
    counted = [reading.counted for reading in use.readings]
    columns = zip(*(page.exceeded_us for page in counted)) if counted else ((),) * len(_NAMES)
    return {
        "disk": use.volume.disk,
        "time_ns": [reading.time_ns for reading in use.readings],
        **{
            f"{name}_over_ns": [time_us * _NS_PER_US for time_us in column]
            for name, column in zip(_NAMES, columns)
        },
        "bytes": [page.bytes for page in counted],
        "ops": [page.ops for page in counted],
    }
