# SPDX-License-Identifier: Apache-2.0
"""The merge of a fleet's records and the report on it, for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.shared.text import printable
from contracts.shared.units import counted, format_count, format_seconds, format_size
from profiler.fleet.ingest import BROKEN_NAME, Ingested
from profiler.fleet.report import FEW_NODES, ClassSummary, FleetReport
from profiler.report.console import plain_table, print_lines

_SHOWN = 20
_S_PER_HOUR = 3600


def print_ingested(done: Ingested, console: Console) -> None:
    """Print what was merged, and the first broken files."""
    print_lines(
        [
            f"{counted(done.records, 'record')} of {counted(done.nodes, 'node')} in "
            f"{_classes(done.classes)} → {done.folder}"
        ],
        console,
        "bold",
    )
    if not done.broken:
        return
    total = f"{format_count(len(done.broken))} of {counted(done.files, 'file')}"
    print_lines(
        [f"{total} do not count; {done.folder / BROKEN_NAME} names each:"], console, "yellow"
    )
    lines = [f"{each.name}: {'; '.join(each.problems)}" for each in done.broken[:_SHOWN]]
    print_lines([f"  {each}" for each in lines], console, hanging=4)
    if len(done.broken) > _SHOWN:
        print_lines([f"  and {format_count(len(done.broken) - _SHOWN)} more"], console)


def _classes(count: int) -> str:
    return f"{format_count(count)} class{'' if count == 1 else 'es'}"


def ingested_document(done: Ingested) -> dict[str, object]:
    """Return the same as plain data, with every broken file."""
    return {
        "folder": printable(str(done.folder)),
        "files": done.files,
        "records": done.records,
        "nodes": done.nodes,
        "classes": done.classes,
        "broken": [{"file": each.name, "problems": list(each.problems)} for each in done.broken],
    }


def print_fleet(found: FleetReport, console: Console) -> None:
    """Print which classes to study first, each class's waits, and the outliers."""
    nodes = sum(each.nodes for each in found.classes)
    waiting = sum(each.waiting_nodes for each in found.classes)
    classes = _classes(len(found.classes))
    print_lines(
        [f"{counted(nodes, 'node')} in {classes}; writers wait on {format_count(waiting)}"],
        console,
        "bold",
    )
    console.print()
    _print_study(found, console)
    _print_classes(found, console)
    _print_watched(found, console)
    _print_outliers(found, console)


def _print_study(found: FleetReport, console: Console) -> None:
    if not found.to_study:
        print_lines(["The model predicts no gain from other settings for any class."], console)
        console.print()
        return
    print_lines(
        ["Classes to study first, by the time that the model predicts to be saved:"], console
    )
    for at, each in enumerate(found.to_study[:_SHOWN], 1):
        print_lines([f"{at}. {each.class_key}"], console, "bold", hanging=3)
        print_lines([f"   {line}" for line in _saving_lines(each)], console, hanging=3)
    _print_more(len(found.to_study), console)
    print_lines(
        ["   A prediction is no measurement: `writewise sweep` on nodes of the class measures."],
        console,
        "dim",
        hanging=3,
    )
    console.print()


def _saving_lines(one: ClassSummary) -> Iterator[str]:
    saving = one.saving
    if saving is None:
        return
    hours = saving.saved_s / _S_PER_HOUR
    yield (
        f"{saving.setting}: {hours:,.1f} h of {counted(saving.pulls, 'pull')}, "
        f"{saving.share:.0%} of their time"
    )
    at_risk, now = format_size(saving.peak_bytes), format_size(saving.present_peak_bytes)
    yield f"data at risk: up to {at_risk} instead of {now}"
    if one.nodes < FEW_NODES:
        yield f"only {counted(one.nodes, 'node')}: too few to conclude for another node"


def _print_classes(found: FleetReport, console: Console) -> None:
    table = plain_table("class", "nodes", "wait", "main causes", "return p50", "p95", "failed")
    for each in found.classes[:_SHOWN]:
        table.add_row(*map(Text, _cells(each)))
    _print_table(table, len(found.classes), console)


def _print_watched(found: FleetReport, console: Console) -> None:
    """Print what `watch` saw on the nodes with a record of a day."""
    watched = [(each.class_key, each.watched) for each in found.classes if each.watched]
    if not watched:
        return
    print_lines(["Watched all day, without their pulls:"], console)
    table = plain_table("class", "nodes", "watched", "with bursts", "writers throttled")
    for class_key, seen in watched[:_SHOWN]:
        hours = (f"{time_s / _S_PER_HOUR:,.1f} h" for time_s in (seen.watched_s, seen.burst_s))
        share = f", {seen.stalled_s / seen.burst_s:.0%} of it" if seen.burst_s else ""
        stalled = f"{seen.stalled_s / _S_PER_HOUR:,.1f} h{share}"
        table.add_row(*map(Text, (class_key, format_count(seen.nodes), *hours, stalled)))
    _print_table(table, len(watched), console)


def _cells(one: ClassSummary) -> tuple[str, ...]:
    returned = one.distributions.get("return_time_ns")
    causes = [f"{cause} {count}" for cause, count in one.waiting.items() if count]
    return (
        one.class_key,
        format_count(one.nodes),
        f"{one.waiting_nodes / one.nodes:.0%}",
        ", ".join(causes),
        format_seconds(returned.p50_s) if returned else "",
        format_seconds(returned.p95_s) if returned else "",
        f"{one.failed_pulls / one.pulls:.1%}" if one.pulls else "",
    )


def _print_outliers(found: FleetReport, console: Console) -> None:
    if not found.outliers:
        print_lines(["No node is an outlier of its class."], console)
        return
    print_lines(
        [f"{counted(len(found.outliers), 'node')} far from the median of the class, per byte:"],
        console,
    )
    table = plain_table("node", "time", "class")
    for each in found.outliers[:_SHOWN]:
        table.add_row(*map(Text, (each.node, f"{each.times_the_median:.2f} ×", each.class_key)))
    _print_table(table, len(found.outliers), console)


def _print_table(table: Table, rows: int, console: Console) -> None:
    console.print(table)
    _print_more(rows, console)
    console.print()


def _print_more(count: int, console: Console) -> None:
    if count > _SHOWN:
        more = format_count(count - _SHOWN)
        print_lines([f"   and {more} more: --json has all"], console)


def fleet_document(found: FleetReport) -> dict[str, object]:
    """Return the same as plain data, with every class and outlier."""
    return {
        "classes": [
            {**asdict(each), "waiting_nodes": each.waiting_nodes} for each in found.classes
        ],
        "to_study": [each.class_key for each in found.to_study],
        "outliers": [asdict(each) for each in found.outliers],
    }
