# SPDX-License-Identifier: Apache-2.0
"""A recommendation for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from contracts.shared.text import printable
from contracts.shared.units import counted, format_seconds, format_size
from profiler.pull.evidence import Limit
from profiler.report.conclusions import note_texts, span_text, stall_text, verdict_text
from profiler.report.console import print_lines
from profiler.report.findings import finding_text
from profiler.report.price import (
    limits_text,
    objection_text,
    other_price_lines,
    price_lines,
    price_table,
)
from profiler.report.reasons import ReasonText, reason_texts
from profiler.report.summary import print_summary
from profiler.report.tradeoff import print_trade_off, setting_text
from profiler.report.volume import print_volume
from profiler.report.volume_words import headline_text
from sysctl.advice.advise import Recommendation
from sysctl.advice.reasons import LEAVE_OUT, MOUNT_OPTIONS, SET
from sysctl.change.forms import Form
from sysctl.evidence.comparison import Side
from sysctl.evidence.price import Limits, Price
from sysctl.evidence.results import Observation, by_reason
from sysctl.evidence.statistics import Noise, Repeats
from sysctl.knobs.setting import Setting

_INDENT = "          "


def print_advice(
    recommendation: Recommendation,
    console: Console,
    group_lines: Sequence[str] = (),
    *,
    details: bool = False,
) -> None:
    """Print the advice on one screen, or in full with `details`."""
    (print_details if details else print_summary)(recommendation, console, group_lines)


def print_details(
    recommendation: Recommendation, console: Console, group_lines: Sequence[str] = ()
) -> None:
    """Print everything: verdict, comparison, cost, trade-off, reasons, and what was left out.

    `group_lines` say what a control group's memory limit does (`profiler.report.groups`).
    """
    other_volume = headline_text(recommendation)
    print_lines(
        [*([other_volume] if other_volume else []), verdict_text(recommendation)], console, "bold"
    )
    console.print(_comparison(recommendation))
    console.print()
    print_lines(_measured_lines(recommendation), console, hanging=2)
    console.print()
    console.print(price_table(_prices(recommendation)))
    console.print()
    print_lines(_facts(recommendation), console, hanging=2)
    console.print()
    print_volume(recommendation, console)
    console.print()
    baseline = recommendation.analysis.runs.baseline
    print_trade_off(recommendation.trade_off, baseline, console)
    for reason in reason_texts(recommendation):
        console.print()
        _print_reason(reason, console)
    _print_forms(recommendation.forms, console)
    _print_contract(recommendation, console)
    print_lines(["" for _ in group_lines[:1]], console)
    print_lines(group_lines, console, "yellow", hanging=2)
    left_out = by_reason(recommendation.left_out)
    print_lines(["" for _ in left_out[:1]], console)
    lines = (f"left out  {item.what}: {item.why}" for item in left_out)
    print_lines(lines, console, "dim", hanging=len(_INDENT))


def _comparison(recommendation: Recommendation) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("current", justify="right", overflow="fold")
    sides = [recommendation.present]
    if recommendation.best is not None:
        sides.append(recommendation.best)
        table.add_column("recommended", justify="right", overflow="fold", style="bold")
    for title, cells in _rows(recommendation, sides):
        table.add_row(title, *cells)
    return table


def _rows(recommendation: Recommendation, sides: Sequence[Side]) -> list[tuple[str, list[str]]]:
    seen = [side.observation for side in sides]
    thresholds = [side.thresholds for side in sides]
    return [
        ("settings", [_words_of(side.setting, recommendation) for side in sides]),
        ("time to return", [format_seconds(side.return_s.median) for side in sides]),
        ("  its runs", [_range(side.return_s) for side in sides]),
        ("writers waited", [stall_text(each) for each in seen]),
        ("pull limited by", [_held_up_by(each) for each in seen]),
        ("writers throttled above", [format_size(t.freerun_bytes) for t in thresholds]),
        ("background threshold", [format_size(t.background_bytes) for t in thresholds]),
        ("dirty threshold", [format_size(t.dirty_bytes) for t in thresholds]),
    ]


def _held_up_by(seen: Observation) -> str:
    """Return `latency`, or `unknown` if the pull's client does not report it."""
    limits = {limit.name.lower(): limit.value.partition(":")[0] for limit in Limit}
    return limits.get(seen.held_up_by or "", "unknown")


def _prices(recommendation: Recommendation) -> list[tuple[str, Price]]:
    """Return the costs by the titles of their columns."""
    prices = [("current", recommendation.present_price)]
    if recommendation.price is not None:
        prices.append(("recommended", recommendation.price))
    return prices


def _words_of(setting: Setting, recommendation: Recommendation) -> str:
    """Return one word per line, with mount options only if they differ from the current mount."""
    text = setting_text(setting, recommendation.analysis.runs.baseline)
    return "\n".join(printable(word) for word in text.split(" "))


def _range(times: Repeats) -> str:
    return f"{span_text(times)} ({counted(times.count, 'run')})"


def _facts(recommendation: Recommendation) -> list[str]:
    """Return what the cost means, the user's limits, and the notes."""
    return [
        *price_lines(recommendation.best, recommendation.price, recommendation.present_price),
        *other_price_lines(recommendation.other_prices),
        *_limit_lines(recommendation),
        *note_texts(recommendation),
    ]


def _measured_lines(recommendation: Recommendation) -> list[str]:
    """Return what was measured, and how certain it is."""
    return [
        measured_text(recommendation),
        _noise_line(recommendation.analysis.noise),
    ]


def _noise_line(noise: Noise) -> str:
    if not noise.degrees:
        return "Noise: unknown, since too few runs were repeated."
    return (
        f"Noise: times under the same settings vary by {noise.deviation:.1%} (standard deviation)."
    )


def _limit_lines(recommendation: Recommendation) -> list[str]:
    limits = recommendation.analysis.limits
    if limits == Limits():
        return []
    objection = limits.objection(recommendation.present_price)
    beyond = "; the current settings exceed them: "
    shown = f"{beyond}{objection_text(objection)}" if objection else ""
    return [f"Your limits: {limits_text(limits)}{shown}."]


def measured_text(recommendation: Recommendation) -> str:
    """Return what was pulled, where, on which node and when."""
    runs, seen = recommendation.analysis.runs, recommendation.present.observation
    shared, node = runs.circumstances.node_class, runs.circumstances.node
    memory = format_size(runs.dirtyable_bytes)
    instance = f"{shared.instance}, " if shared.instance else ""
    client = f" by the client {shared.client}" if shared.client else ""
    return (
        f"Measured: {counted(seen.objects, 'object')}, {format_size(seen.bytes)}, from "
        f"{node.source or '?'} to {node.destination or '?'} ({shared.fstype}){client}, "
        f"on {node.host or '?'} ({instance}Linux {shared.kernel or '?'}, {memory} of dirtyable "
        f"memory), {node.started_at or '?'}."
    )


def _print_reason(reason: ReasonText, console: Console) -> None:
    sign = " " if reason.name == MOUNT_OPTIONS else " = "
    before = f" (before: {reason.before})" if reason.before else ""
    head = f"{reason.action:9} {reason.name}{sign}{reason.value}{before}"
    style = {SET: "green", LEAVE_OUT: "dim"}.get(reason.action, "")
    print_lines([head], console, style, hanging=len(_INDENT))
    print_lines([f"{_INDENT}{text}" for text in (reason.mechanism, reason.effect) if text], console)
    if reason.risk:
        print_lines([f"{_INDENT}risk: {reason.risk}"], console, "yellow")
    if reason.undo:
        print_lines([f"{_INDENT}revert {reason.undo}"], console)


def _print_forms(forms: tuple[Form, Form] | None, console: Console) -> None:
    """Print both forms, and which one suits."""
    if forms is None:
        return
    print_lines(["", "The same thresholds in both forms:"], console)
    for form in forms:
        values = " ".join(f"{name}={value}" for name, value in form.values.items())
        mark = "measured; " if form.is_measured else ""
        line = f"  as {form.kind:6} {values or 'none'} ({mark}{form.note})"
        print_lines([line], console, hanging=len("  as ratio  "))
    if all(form.values for form in forms):
        suits = (
            "Bytes suit a fleet of nodes with different memory that pull the same, without "
            "containers that have memory limits. Ratios suit hosts with such containers, and a "
            "fleet where larger nodes also pull more."
        )
        print_lines([suits], console)


def _print_contract(recommendation: Recommendation, console: Console) -> None:
    """Print the contract's findings for a run of the current settings."""
    findings = recommendation.present.observation.findings
    if findings:
        print_lines(["", "The contract, in a run of the current settings:"], console)
    for finding in findings:
        mark = "exceeded" if finding["violated"] else "kept"
        line = f"  {finding['label']}: {finding_text(finding)} ({mark})"
        print_lines([line], console, hanging=4)
