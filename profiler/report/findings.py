# SPDX-License-Identifier: Apache-2.0
"""A contract's findings for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.evaluate import Finding
from contracts.fields import size_range_text
from contracts.model import CallType, Rule, Slot
from contracts.shared.text import printable
from contracts.shared.units import (
    counted,
    exact_latency,
    format_count,
    format_duration,
    format_size,
)
from contracts.stats import CallStats
from contracts.vocabulary import call_types_text
from profiler.report.console import print_lines

_COLUMNS = ("rule", "path", "sizes", "measures", "value", "threshold", "violated")
_NUMERIC_COLUMNS = ("value", "threshold")


def print_findings(
    findings: Sequence[Finding],
    console: Console,
    *,
    timeframe_ns: int | None = None,
    elapsed_ns: int | None = None,
) -> None:
    """Print a table of the findings, and below it the calls of each path and size range.

    With the contract's timeframe and the measured time, it also says when a threshold was meant for
    a shorter time than the value covers.
    """
    console.print(findings_table(findings))
    print_lines(_calls_lines(findings), console, hanging=2)
    print_lines([_coverage(timeframe_ns, elapsed_ns)], console, "dim")


def findings_table(findings: Sequence[Finding]) -> Table:
    """Return the findings as a rich table, one row per rule in the contract's order."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in _COLUMNS:
        if name in _NUMERIC_COLUMNS:
            table.add_column(name, justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")  # a long path is shown whole
    for finding in findings:
        table.add_row(*_cells(finding))
    return table


def _cells(finding: Finding) -> tuple[Text, ...]:
    """Return a row as texts, not markup, so that a label such as `[bold]` is printed unchanged."""
    rule = finding.rule
    return (
        Text(printable(rule.label)),
        *_scope_cells(rule),
        Text(finding.value_text),
        Text(finding.threshold_text),
        _verdict(finding),
    )


def _scope_cells(rule: Rule) -> tuple[Text, Text, Text]:
    """Return path, sizes and measurement; memory and CPU time have neither path nor sizes."""
    if rule.slot is None:
        return Text("–"), Text("–"), Text(rule.measurement.value)
    return (
        Text(printable(rule.path)),
        Text(size_range_text(rule.size_range)),
        Text(f"{call_types_text(rule.call_types)} {rule.measurement.value}"),
    )


def _verdict(finding: Finding) -> Text:
    if finding.superseded:
        return Text("superseded", style="dim")
    return Text("yes", style="bold red") if finding.violated else Text("no", style="green")


def _calls_lines(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each slot; rules that share a slot share its calls."""
    first_of_slot: dict[Slot, Finding] = {}
    for finding in findings:
        if finding.rule.slot is not None:
            first_of_slot.setdefault(finding.rule.slot, finding)
    return [_calls_line(slot, finding.stats) for slot, finding in first_of_slot.items()]


def _calls_line(slot: Slot, stats: CallStats) -> str:
    sizes = "" if slot.size_range.is_all else f" of {size_range_text(slot.size_range)}"
    calls = counted(stats.count, f"{call_types_text(slot.call_types)} call")
    parts = (f"{calls}{sizes}", *_moved(slot, stats), f"{format_count(stats.failed)} failed")
    line = f"{printable(slot.path)}: {', '.join(parts)}"
    if not stats.count:
        return line
    p50, p99 = (format_duration(stats.percentile_ns(percent)) for percent in (50, 99))
    return f"{line}; latency p50 {p50}, p99 {p99}, max {format_duration(stats.latency_max_ns)}"


def _moved(slot: Slot, stats: CallStats) -> tuple[str, ...]:
    """Return the bytes moved or the distance of seeks; nothing for other calls."""
    if slot.call_types == (CallType.SEEK,):
        return (f"distance {format_size(stats.bytes)}",)
    return (format_size(stats.bytes),) if slot.moves_bytes else ()


def _coverage(timeframe_ns: int | None, elapsed_ns: int | None) -> str:
    if timeframe_ns is None or elapsed_ns is None or elapsed_ns <= timeframe_ns:
        return "Each value covers the whole run."
    return (
        f"Each value covers the whole run of {format_duration(elapsed_ns)}, which is longer than "
        f"the contract's timeframe of {exact_latency(timeframe_ns)}."
    )


#: Measurement → what its value says about the calls, for one sentence.
_PHRASES: Mapping[str, str] = {
    "count": "{value} {calls} calls",
    "seek-distance": "{value} of distance in {calls} calls",
    "mean-latency": "{value} for a {calls} call on average",
    "min-latency": "{value} for the shortest {calls} call",
    "max-latency": "{value} for the longest {calls} call",
    "total-latency": "{value} in {calls} calls together",
}
_MOVED = {"read": "{value} read", "write": "{value} written", "mmap": "{value} mapped"}
_FORMATS: Mapping[str, Callable[[float], str]] = {
    "bytes": format_size,
    "ns": format_duration,
    "calls": lambda value: format_count(int(value)),
}


def finding_text(finding: Mapping[str, object]) -> str:
    """Word an entry of the findings' document: `1.88 GiB written, threshold 1 B`."""
    show = _FORMATS[str(finding["unit"])]
    value, threshold = finding["value"], finding["threshold"]
    calls, measurement = str(finding["call_types"]), str(finding["measurement"])
    limit = show(threshold) if isinstance(threshold, (int, float)) else "?"
    if not isinstance(value, (int, float)):
        return f"no {calls} calls, threshold {limit}"
    phrase = _PHRASES.get(measurement, f"{{value}} of {measurement}")
    if measurement == "bandwidth":
        phrase = _MOVED.get(calls, "{value} moved by {calls} calls")
    elif measurement.startswith("p"):
        phrase = f"{{value}} or less for {measurement[1:]}% of the {{calls}} calls"
    return f"{phrase.format(value=show(value), calls=calls)}, threshold {limit}"
