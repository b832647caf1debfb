# SPDX-License-Identifier: Apache-2.0
"""A comparison of pull clients as tables on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from contracts.shared.text import printable
from contracts.shared.units import counted, exact_size, format_duration, format_seconds, format_size
from profiler.client_bench.client_comparison import (
    Cell,
    ClientComparison,
    ClientRun,
    Row,
    ServerShape,
)
from profiler.client_bench.context import IN_MEMORY
from profiler.pull.clients.catalogue import DEFAULT
from profiler.report.console import print_lines
from sysctl.evidence.comparison import MIN_GAIN
from sysctl.evidence.statistics import CONFIDENCE, Interval

_NONE = "-"
_MANY = 100  # times as long; more is practically unknown, as the interval of two pairs may be
CellText = Callable[[Cell], str]
Document = dict[str, object]


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else form.format(value)


def _size(value: float | None) -> str:
    return _NONE if value is None else format_size(value)


#: Title of a column → its text; the client's name comes before them, the ratio after them.
_COLUMNS: tuple[tuple[str, CellText], ...] = (
    ("time", lambda cell: _NONE if cell.time_s is None else format_seconds(cell.time_s)),
    ("MiB/s", lambda cell: _number(cell.mib_per_s, "{:.0f}")),
    ("objects/s", lambda cell: _number(cell.objects_per_s, "{:.3g}")),
    ("CPU-s/GiB", lambda cell: _number(cell.cpu_s_per_gib, "{:.2f}")),
    ("server", lambda cell: _number(cell.server_cpu_s_per_gib, "{:.2f}")),
    ("peak RSS", lambda cell: _size(cell.peak_rss_bytes)),
    ("waited", lambda cell: _number(cell.stalled_share, "{:.0%}")),
)


def titles(row: Row) -> tuple[str, ...]:
    """The columns' titles."""
    ratio = f"time relative to {row.yardstick}" if row.yardstick else "ratio"
    return ("client", *(title for title, _ in _COLUMNS), ratio)


def cells(row: Row) -> list[tuple[str, ...]]:
    """Return the lines of a row's table, the fastest client first, those that failed last."""
    ordered = sorted(row.cells, key=lambda cell: cell.time_s or math.inf)
    return [
        (
            cell.client,
            *(text(cell) for _, text in _COLUMNS),
            _ratio_text(row.ratio(cell.client, row.yardstick), cell.client == row.yardstick),
        )
        for cell in ordered
    ]


def _ratio_text(ratio: Interval | None, is_yardstick: bool) -> str:
    if ratio is None or is_yardstick:
        return "1" if is_yardstick else _NONE
    return f"{ratio.estimate:.2f} ({_interval_text(ratio)})"


def _interval_text(ratio: Interval) -> str:
    if math.isinf(ratio.high):
        return "one pull"
    high = f"{ratio.high:.2f}" if ratio.high < _MANY else f"over {_MANY}"
    return f"{ratio.low:.2f} to {high}"


def headline(row: Row, comparison: ClientComparison) -> str:
    """Return the row's name, objects, bytes, client processes, and the shape of the server.

    It also says whether the bytes exceed the dirty threshold.
    """
    threshold = comparison.context.get("dirty_threshold_bytes")
    is_above = isinstance(threshold, int) and row.bytes > threshold
    above = ", more than the dirty threshold" if is_above else ""
    return (
        f"{row.name}: {counted(row.objects, 'object')}, {format_size(row.bytes)}{above}; "
        f"{counted(row.workers, 'worker')}{_shape_text(row.shape)}"
    )


def _shape_text(shape: ServerShape | None) -> str:
    if shape is None:
        return ""
    rate = f"{exact_size(shape.rate_bytes_per_s)}/s" if shape.rate_bytes_per_s else "any rate"
    latency = format_duration(shape.first_byte_latency_ns)
    return f"; server on the same cores: {latency} to the first byte, {rate} per connection"


def verdict(row: Row) -> str:
    """Return which client is significantly faster than the default, and which one to use."""
    if row.cell(DEFAULT.name) is None:
        return f"{row.name}: nothing is recommended, since {DEFAULT.name} was not measured"
    if not row.rivals:
        return f"{row.name}: nothing is recommended, since {DEFAULT.name} alone was measured"
    faster = row.faster_than_default
    if not faster:
        return (
            f"{row.name}: no change: no client is significantly faster than {DEFAULT.name} and by "
            f"more than {MIN_GAIN:.0%}"
        )
    name, ratio = faster[0]
    others = f" for all {len(row.rivals)} clients together" if len(row.rivals) > 1 else ""
    return (
        f"{row.name}: pull --client {name}; it takes {ratio.estimate:.2f} of the time that "
        f"{DEFAULT.name} takes ({_interval_text(ratio)}; {CONFIDENCE:.0%} confidence{others})"
    )


def conditions(comparison: ClientComparison) -> list[str]:
    """Return where and how it was measured, and what the columns mean."""
    context = comparison.context
    lines = [
        f"Measured {context['measured_at']} on Linux {context['kernel']} {context['machine']}, "
        f"{context['cpus']} CPUs, {_size_of(context, 'memory_bytes')} of memory, Python "
        f"{context['python']}; destination on {context['file_system']}, dirty threshold "
        f"{_size_of(context, 'dirty_threshold_bytes')}.",
        f"Medians of up to {_pulls_text(context)} by each client in turns; files are deleted after "
        "each. The time ends when the last object has arrived and includes the listing and a "
        f"program's start, but not the start of worker processes ({_start_text(comparison)}).",
        "A program is one process, whatever the workers. CPU time is of the client's processes "
        "together, with listing and distribution; peak RSS is of workers and programs (sampled "
        "every 100 ms, shared pages counted for each); waited is the share of the writing "
        "threads' time that they slept for dirty throttling. Ratios are medians of pairs, with "
        "95 % intervals.",
    ]
    versions = context["clients"]
    if isinstance(versions, dict):
        lines.append("Clients: " + "; ".join(f"{each} {versions[each]}" for each in versions) + ".")
    if context["file_system"] in IN_MEMORY:
        lines.append(
            "The destination is in memory: writes to it wait neither for write-back nor for a disk."
        )
    if context["reported_block_bytes"]:
        lines.append(
            "The hypervisor reclaims free memory (free page reporting, in blocks of at least "
            f"{_size_of(context, 'reported_block_bytes')}): a write into memory that was free "
            "waits for it. That counts as CPU time of the kernel, and is longest with large folios."
        )
    if context["no_stalls"]:
        lines.append(f"Stalls are not seen: {context['no_stalls']}.")
    return [printable(line) for line in lines]


def _pulls_text(context: dict[str, object]) -> str:
    value = context["pulls"]
    return counted(value, "pull") if isinstance(value, int) else _NONE


def _size_of(context: dict[str, object], name: str) -> str:
    value = context[name]
    return format_size(value) if isinstance(value, int) else _NONE


def _start_text(comparison: ClientComparison) -> str:
    starts = [cell.start_s for row in comparison.rows for cell in row.cells]
    known = [seconds for seconds in starts if seconds is not None]
    if not known:
        return _NONE
    return f"{min(known):.1f} to {max(known):.1f} s"


def print_plan(rows: int, clients: Sequence[str], pulls: int, console: Console) -> None:
    """Print what will be measured, since that may take long."""
    text = (
        f"{counted(rows, 'row')}, each pulled by {', '.join(clients)} in turns: "
        f"{counted(rows * len(clients) * (pulls + 1), 'pull')}; Ctrl-C prints what is measured"
    )
    print_lines([text], console, hanging=2)


def print_pull(row: str, client: str, sample: ClientRun, console: Console) -> None:
    """Print one line for a finished pull."""
    which = f"pull {sample.round}" if sample.round else "warm-up"
    rate = sample.bytes / 2**20 / sample.time_s
    text = f"{row}  {which}  {client}: {format_seconds(sample.time_s)}, {rate:.0f} MiB/s"
    print_lines([text], console, hanging=2)


def print_comparison(comparison: ClientComparison, console: Console) -> None:
    """Print tables, conditions, what failed, and a verdict for each row."""
    for row in comparison.rows:
        print_lines([headline(row, comparison)], console, "bold", hanging=2)
        console.print(_table(row))
        console.print()
    print_lines((*conditions(comparison), *comparison.problems), console, hanging=2)
    console.print()
    print_lines(map(verdict, comparison.rows), console, hanging=2)


def _table(row: Row) -> Table:
    """Return a row's table; a narrow terminal folds the ratio, the last column, without a cut."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    first, *others, last = titles(row)
    table.add_column(first, no_wrap=True)
    for title in others:
        table.add_column(title.replace("/", "\n/"), justify="right", no_wrap=True)
    table.add_column(last, justify="right", overflow="fold")
    for line in cells(row):
        table.add_row(*line)
    return table


def markdown(comparison: ClientComparison) -> str:
    """Return the same as Markdown."""
    blocks = ["\n".join(conditions(comparison))]
    for row in comparison.rows:
        first = titles(row)
        rule = ["---", *("---:" for _ in first[1:])]
        lines = [_line(each) for each in (first, rule, *cells(row))]
        blocks += [f"**{headline(row, comparison)}**", "\n".join(lines)]
    blocks.append("\n".join(f"- {_escaped(line)}" for line in _endings(comparison)))
    return "\n\n".join(blocks) + "\n"


def _endings(comparison: ClientComparison) -> list[str]:
    return [*comparison.problems, *map(verdict, comparison.rows)]


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(_escaped, texts)) + " |"


def _escaped(text: str) -> str:
    return printable(text).replace("|", "\\|")


def comparison_document(comparison: ClientComparison) -> Document:
    """Return the same as plain data, with every pull; the names have the units."""
    return {
        "context": comparison.context,
        "conditions": conditions(comparison),
        "complete": comparison.ended_by is None and not comparison.failed_sources,
        "failed_sources": list(comparison.failed_sources),
        "rows": [_row_document(row, comparison) for row in comparison.rows],
    }


def _row_document(row: Row, comparison: ClientComparison) -> Document:
    faster = row.faster_than_default
    return {
        "name": row.name,
        "headline": headline(row, comparison),
        "verdict": verdict(row),
        "objects": row.objects,
        "bytes": row.bytes,
        "workers": row.workers,
        "server_shape": None if row.shape is None else asdict(row.shape),
        "yardstick": row.yardstick,
        "recommended_client": faster[0][0] if faster else None,
        "clients": [_cell_document(row, cell) for cell in row.cells],
    }


def _cell_document(row: Row, cell: Cell) -> Document:
    return {
        "client": cell.client,
        "problem": cell.problem or None,
        "time_s": cell.time_s,
        "mib_per_s": cell.mib_per_s,
        "objects_per_s": cell.objects_per_s,
        "cpu_s_per_gib": cell.cpu_s_per_gib,
        "server_cpu_s_per_gib": cell.server_cpu_s_per_gib,
        "peak_rss_bytes": cell.peak_rss_bytes,
        "stalled_share": cell.stalled_share,
        "ratio_to_yardstick": _interval_document(row.ratio(cell.client, row.yardstick)),
        "ratio_to_default": _interval_document(row.ratio(cell.client, DEFAULT.name)),
        "pulls": [asdict(sample) for sample in cell.samples],
    }


def _interval_document(ratio: Interval | None) -> Document | None:
    if ratio is None:
        return None
    high = None if math.isinf(ratio.high) else ratio.high
    return {"estimate": ratio.estimate, "low": ratio.low, "high": high, "pairs": ratio.count}
