# SPDX-License-Identifier: Apache-2.0
"""A comparison of two files, for the terminal and as a document for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from contracts.shared.text import printable
from contracts.shared.units import (
    counted,
    format_count,
    format_rate,
    format_seconds,
    format_size,
)
from profiler.compare.comparing import (
    Differing,
    FigureComparison,
    FileComparison,
    Obstacle,
    Significance,
)
from profiler.compare.subject import Kind, Size, Subject, Unit, Value
from profiler.report.console import plain_table, print_lines
from sysctl.evidence.statistics import Repeats

#: The words for lower and higher times.
_OF_TIMES = ("faster", "slower")
#: The outcomes in the table.
_SHORT = {
    Significance.LOWER: "lower",
    Significance.HIGHER: "higher",
    Significance.SAME: "not significant",
    Significance.FEW_RUNS: "one run",
    Significance.ONLY_MEDIANS: "only medians",
    Significance.EXACT: "computed",
    Significance.NO_RATIO: "",
    Significance.MISSING: "in one file only",
}
#: More verdicts are summed up: `bench-clients` has one for each row and client.
_MOST_VERDICTS = 4


def verdict_sentences(found: FileComparison) -> list[str]:
    """Return the answer: why the files are not comparable, or what differs significantly."""
    if found.obstacle is not None:
        return [f"Not comparable: {_obstacle_text(found, found.obstacle)}."]
    asked = [each for each in found.figures if each.is_verdict and each.ratio is not None]
    if not asked:
        return ["No figure of both files has a ratio."]
    if len(asked) > _MOST_VERDICTS:
        return list(_summed_up(asked))
    return [_verdict(each) for each in asked]


def _obstacle_text(found: FileComparison, obstacle: Obstacle) -> str:
    before, after = found.before, found.after
    if obstacle is Obstacle.KIND:
        return f"before is a {before.kind.value}, after a {after.kind.value}"
    if obstacle is Obstacle.SCOPE:
        return f"before is of {before.scope}, after of {after.scope}"
    if obstacle is Obstacle.SIZE:
        return f"before is of {_size(before.size)}, after of {_size(after.size)}"
    return "the files have no figure in common"


def _size(size: Size) -> str:
    parts = [counted(size.objects, "object")] if size.objects else []
    return ", ".join([*parts, format_size(size.bytes)])


def _verdict(each: FigureComparison) -> str:
    """Return one sentence on a figure: significantly different, not, or unknown."""
    if each.before is None or each.after is None or each.ratio is None:
        return f"{_capital(each.name)} has no ratio."
    medians = (_value(side.median, each.unit) for side in (each.before, each.after))
    change = " → ".join(medians)
    interval = each.interval
    if interval is None:
        return f"{_capital(each.name)}: {change}, ratio {each.ratio:.3g}; {_why_unknown(each)}."
    runs = f"{each.before.count} and {counted(each.after.count, 'run')}"
    shown = (
        f"{change}, ratio {interval.estimate:.3g} ({100 * interval.confidence:.4g}% interval "
        f"{interval.low:.3g} to {interval.high:.3g}; {runs}; {interval.method.value})"
    )
    if each.outcome is Significance.SAME:
        return f"No significant difference in {each.name}: {shown}."
    words = _OF_TIMES if each.unit is Unit.SECONDS else ("lower", "higher")
    word = words[each.outcome is Significance.HIGHER]
    return f"Significantly {word}: {each.name} {shown}."


def _why_unknown(each: FigureComparison) -> str:
    """Return why there is no interval."""
    if each.outcome is Significance.EXACT:
        return "computed, not measured"
    if each.outcome is Significance.ONLY_MEDIANS:
        return "a file has only the median of its runs, so whether that is chance is unknown"
    return "one run can differ that much by chance, so repeat it"


def _summed_up(asked: Sequence[FigureComparison]) -> Iterator[str]:
    """Yield how many figures differ, and each that differs significantly."""
    clear = [each for each in asked if each.outcome in (Significance.LOWER, Significance.HIGHER)]
    known = [each for each in asked if each.interval is not None]
    if not known:
        yield f"None of {counted(len(asked), 'figure')} has repeats in both files."
        return
    yield (
        f"{len(clear)} of {counted(len(asked), 'figure')} differ significantly; all intervals "
        "together hold with 95%."
    )
    yield from map(_verdict, clear)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def caveats(found: FileComparison) -> list[str]:
    """Return what limits the comparison, one sentence each."""
    if found.obstacle is not None:
        return []
    lines = []
    others = [each for each in found.circumstances if None not in (each.before, each.after)]
    if others and found.settings:
        names = ", ".join(label_text(each.name) for each in others)
        verb = "differs" if len(others) == 1 else "differ"
        lines.append(f"The settings need not be the cause: {names} {verb} too.")
    for name, side in (("Before", found.before), ("After", found.after)):
        lines += [f"{name}: {failure}." for failure in dict.fromkeys(side.failures)]
    if not found.before.size.bytes or not found.after.size.bytes:
        if found.before.kind in (Kind.PULL, Kind.SWEEP):
            lines.append("Whether the pulls have the same size is unknown.")
        elif found.before.kind in (Kind.RUN, Kind.PROFILE):
            lines.append("Whether the same work was done is for you to know.")
    return lines


def print_comparison(found: FileComparison, console: Console) -> None:
    """Print the verdict, what differs, the figures and the caveats."""
    for side, name in ((found.before, "before"), (found.after, "after")):
        print_lines([f"{name:8}{side.file}: {_side_text(side)}"], console, hanging=8)
    console.print()
    print_lines(verdict_sentences(found), console, "bold", hanging=2)
    for title, changes in (
        ("settings", found.settings),
        ("circumstances", found.circumstances),
        ("outcome", found.answers),
    ):
        _print_changes(title, changes, console)
    if found.obstacle is None:
        if not found.settings and not found.circumstances:
            print_lines(["", "Settings and circumstances are the same, as far as known."], console)
        console.print()
        _print_figures(found.figures, console)
    lines = caveats(found)
    print_lines(["", *lines] if lines else [], console, "yellow", hanging=2)


def _side_text(side: Subject) -> str:
    noun = side.kind.value
    count = f"{side.runs} {noun}s" if side.runs > 1 else f"a {noun}"
    size = f" of {_size(side.size)}" if side.size.bytes else ""
    when = f", {side.measured_at}" if side.measured_at else ""
    return f"{count}{size}{when}"


def _print_changes(title: str, changes: Sequence[Differing], console: Console) -> None:
    if not changes:
        return
    console.print()
    table = plain_table(title, "before", "after")
    for each in changes:
        cells = (
            label_text(each.name),
            *(shown_value(each.name, v) for v in (each.before, each.after)),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console.print(table)


def _print_figures(figures: Sequence[FigureComparison], console: Console) -> None:
    table = plain_table("figure", "before", "after", "ratio (interval)", "runs", "")
    for each in figures:
        style = "bold" if each.outcome in (Significance.LOWER, Significance.HIGHER) else ""
        table.add_row(*(Text(printable(cell)) for cell in figure_cells(each)), style=style)
    console.print(table)
    if any("±" in cell for each in figures for cell in figure_cells(each)):
        print_lines(["±: the largest deviation of a run from the median"], console, "dim")


def figure_cells(each: FigureComparison) -> tuple[str, ...]:
    """Return a row: name, `18.6 s ±2%` twice, `0.5 (0.46–0.55)`, `6, 6`, the outcome in short."""
    interval = each.interval
    sides = (each.before, each.after)
    return (
        each.name,
        *(repeats_text(side, each.unit) for side in sides),
        ratio_text(each.ratio, (interval.low, interval.high) if interval else None),
        ", ".join("–" if side is None else str(side.count) for side in sides),
        _SHORT[each.outcome],
    )


def ratio_text(ratio: float | None, interval: tuple[float, float] | None) -> str:
    """Return `0.5 (0.46–0.55)`; "" without a ratio."""
    if ratio is None:
        return ""
    return f"{ratio:.3g} ({interval[0]:.3g}–{interval[1]:.3g})" if interval else f"{ratio:.3g}"


def repeats_text(repeats: Repeats | None, unit: Unit) -> str:
    """Return `18.6 s ±2%`; `–` for none."""
    if repeats is None:
        return "–"
    text = _value(repeats.median, unit)
    if repeats.smallest == repeats.largest or not repeats.median:
        return text
    away = max(repeats.largest - repeats.median, repeats.median - repeats.smallest)
    return f"{text} ±{100 * away / repeats.median:.2g}%"


def _value(value: float, unit: Unit) -> str:
    if unit is Unit.SECONDS:
        return format_seconds(value)
    if unit is Unit.BYTES:
        return format_size(value)
    if unit is Unit.SHARE:
        return f"{100 * value:.3g}%"
    if unit is Unit.USD:
        return f"{value:,.2f} USD"
    is_large = unit is Unit.COUNT and value >= 100
    return format_count(round(value)) if is_large else f"{value:.3g}"


#: What the names of numbers end in, and how these are printed.
_FORMATS: Mapping[str, Callable[[float], str]] = {
    "_bytes_per_s": format_rate,
    "_mib_per_s": lambda rate: f"{rate:g} MiB/s",
    "_bytes": format_size,
    "_gib": lambda size: f"{size:g} GiB",
    "_percent": lambda percent: f"{percent:.3g}%",
    "_s": format_seconds,
}


def label_text(name: str) -> str:
    """Return a name of `measured` as words; names of sysctls and knobs stay."""
    if "." in name or "/" in name or " " in name:
        return name
    return name[: len(name) - len(_suffix(name))].replace("_", " ")


def _suffix(name: str) -> str:
    return next((each for each in _FORMATS if name.endswith(each)), "")


def shown_value(name: str, value: Value | None) -> str:
    """Return a value with its unit, which its name has; `–` for none."""
    if value is None:
        return "–"
    if isinstance(value, str) or "." in name:
        return str(value)
    return _FORMATS[_suffix(name)](value) if _suffix(name) else str(value)


def comparison_file_document(found: FileComparison) -> dict[str, object]:
    """Return the comparison as plain data."""
    return {
        "comparable": found.obstacle is None,
        "verdict": [printable(each) for each in verdict_sentences(found)],
        "before": _side_document(found.before),
        "after": _side_document(found.after),
        "settings": _changes_document(found.settings),
        "circumstances": _changes_document(found.circumstances),
        "answers": _changes_document(found.answers),
        "figures": [_figure_document(each) for each in found.figures],
        "caveats": [printable(each) for each in caveats(found)],
    }


def _side_document(side: Subject) -> dict[str, object]:
    return {
        "file": side.file,
        "kind": side.kind.value,
        "runs": side.runs,
        "measured_at": _plain(side.measured_at),
        "objects": side.size.objects or None,
        "bytes": side.size.bytes or None,
    }


def _changes_document(changes: Sequence[Differing]) -> list[dict[str, object]]:
    return [{name: _plain(value) for name, value in vars(each).items()} for each in changes]


def _plain(value: Value | None) -> Value | None:
    return printable(value) if isinstance(value, str) else value


def _figure_document(each: FigureComparison) -> Mapping[str, Any]:
    interval = each.interval
    return {
        "name": printable(each.name),
        "unit": each.unit.value,
        "is_verdict": each.is_verdict,
        "outcome": each.outcome.value,
        "before": None if each.before is None else asdict(each.before),
        "after": None if each.after is None else asdict(each.after),
        "ratio": each.ratio,
        "interval": None
        if interval is None
        else {
            "low": interval.low,
            "high": interval.high,
            "confidence": interval.confidence,
            "method": interval.method.value,
        },
    }
