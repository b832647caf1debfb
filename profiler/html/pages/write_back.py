# SPDX-License-Identifier: Apache-2.0
"""What the pages of a profile and of a pull have in common: causes, latency, timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contracts.shared.units import (
    format_count,
    format_duration,
    format_seconds,
    format_size,
)
from profiler.html.charts.bars import Bar, bar_chart, latency_chart
from profiler.html.charts.chart import Chart, DataTable
from profiler.html.charts.timeline import timeline_chart
from profiler.html.page import CheckStep

_VIOLATED = {True: "yes", False: "no"}


def charts_of(document: Mapping[str, Any]) -> tuple[Chart, ...]:
    """Return the timeline, the causes and the latencies, as far as the document has them."""
    timeline, why = document["timeline"], document["why"]
    found = [timeline_chart(timeline) if timeline else None]
    if why:
        found += [_causes(why), latency_chart(_octaves(why["latency"]))]
    return tuple(each for each in found if each is not None)


def _octaves(entries: Sequence[Mapping[str, int]]) -> list[tuple[int, int, int]]:
    return [(each["from_ns"], each["below_ns"], each["calls"]) for each in entries]


def _causes(why: Mapping[str, Any]) -> Chart | None:
    if not any(part["time_ns"] for part in why["split"]):
        return None
    total_ns = sum(part["time_ns"] for part in why["split"])
    bars = [
        Bar(
            part["cause"],
            part["time_ns"],
            f"{format_duration(part['time_ns'])}, {part['share']:.1%}",
            is_main=part["cause"] == why["cause"],
        )
        for part in why["split"]
    ]
    return bar_chart(
        "causes",
        "What the time in write calls was spent on",
        f"{format_duration(total_ns)} in all, summed over the threads.",
        bars,
        ("cause", "time, summed over all threads"),
    )


def findings_table(findings: Sequence[Mapping[str, Any]]) -> DataTable | None:
    """Return the rules of the contract with what was measured; None without rules."""
    if not findings:
        return None
    titles = ("rule", "path", "calls", "measured", "value", "threshold", "exceeded")
    rows = tuple(
        (
            each["label"],
            each["path"],
            each["call_types"],
            each["measurement"],
            _figure(each["value"], each["unit"]),
            _figure(each["threshold"], each["unit"]),
            _VIOLATED[each["violated"]],
        )
        for each in findings
    )
    return DataTable(titles, rows, frozenset({4, 5}))


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "no calls"
    if unit == "bytes":
        return format_size(value)
    return format_duration(value) if unit == "ns" else format_count(int(value))


def volume_lines(volumes: Sequence[Mapping[str, Any]], unit: str) -> Iterator[str]:
    """Yield how long each EBS volume was over its limits, from a document's `ebs_volumes`.

    `unit` is that of the document's times: s or ns.
    """
    per_s = 1.0 if unit == "s" else 1e9
    limits = ("volume_iops", "volume_throughput", "instance_iops", "instance_throughput")
    for each in volumes:
        name = f"{each['disk']} ({each['volume_id']})"
        if each["problem"] or each[f"observed_{unit}"] is None:
            yield f"{name}: the time over the limits of EBS is unknown."
            continue
        over = [(limit.replace("_", " "), each[f"{limit}_over_{unit}"]) for limit in limits]
        parts = [f"the {limit} limit for {format_seconds(t / per_s)}" for limit, t in over if t]
        observed = format_seconds(each[f"observed_{unit}"] / per_s)
        said = f"it exceeded {', '.join(parts)}" if parts else "it was within all EBS limits"
        yield f"{name}: in {observed} {said}."


def loss_line(losses: Mapping[str, int]) -> str:
    """Return whether anything could not be counted."""
    total = losses["total"]
    if not total:
        return "Nothing was lost: every call and event was counted."
    return f"{format_count(total)} calls or events could not be counted: figures may be too low."


def kernel_checks() -> tuple[CheckStep, ...]:
    """Return how the kernel's own figures show the same, without Writewise."""
    return (
        CheckStep(
            "The kernel's own counters of dirty memory and its thresholds, in pages of 4 KiB:",
            "grep -E 'nr_dirty|nr_writeback' /proc/vmstat",
        ),
        CheckStep(
            "Each sleep of a writer in dirty throttling, as another tool sees it:",
            "bpftrace -e 'tracepoint:writeback:balance_dirty_pages /args->pause > 0/ "
            "{ @ms[comm] = sum(args->pause); }'",
        ),
    )
