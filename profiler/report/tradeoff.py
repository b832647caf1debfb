# SPDX-License-Identifier: Apache-2.0
"""Return time against bytes at risk, as a table and as a plot of letters that needs no colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.shared.text import printable
from contracts.shared.units import counted, format_seconds, format_size
from profiler.report.console import print_lines
from profiler.report.prediction import extrapolated_text
from sysctl.advice.tradeoff import (
    CASE_STUDY_NAME,
    CURRENT_NAME,
    DEFAULT_NAME,
    RECOMMENDED_NAME,
    Point,
    TradeOff,
)
from sysctl.evidence.baseline import Baseline
from sysctl.knobs.setting import Setting, notable

#: Letters of the well-known points, the most important last: it is drawn over the others.
_LETTERS = {DEFAULT_NAME: "D", CASE_STUDY_NAME: "S", CURRENT_NAME: "C", RECOMMENDED_NAME: "R"}
_ORDINARY = "·"
_WIDTH_MAX, _HEIGHT = 100, 16
_TICKS = 4
#: For a terminal whose encoding has no box drawing.
_ASCII = str.maketrans("┌┐└┘┤├┬┴─│·", "++++++++-|.")


def print_trade_off(trade_off: TradeOff, baseline: Baseline, console: Console) -> None:
    """Print the table, the plot if it has points to compare, and what could not be predicted."""
    console.print(trade_off_table(trade_off, baseline))
    if len(trade_off.points) > 1:
        console.print()
        text = plot(trade_off.points, min(console.width, _WIDTH_MAX))
        is_ascii = console.options.ascii_only
        console.print(Text(text.translate(_ASCII) if is_ascii else text), no_wrap=True)
    print_lines(missing_texts(trade_off), console, "dim", hanging=2)


def missing_texts(trade_off: TradeOff) -> list[str]:
    """Return which well-known settings were neither measured nor predicted, and why."""
    why = trade_off.why_missing
    return [f"{name}: neither measured nor predicted, {why}" for name in trade_off.missing]


def trade_off_table(trade_off: TradeOff, baseline: Baseline) -> Table:
    """Return a table with a row for each notable point."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("setting", overflow="fold")
    for title in ("returns", "at risk", "durable"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("from", no_wrap=True)
    for point in trade_off.telling:
        table.add_row(*_cells(point, baseline), style="bold" if _is_recommended(point) else "")
    return table


def _cells(point: Point, baseline: Baseline) -> tuple[str, ...]:
    lines = [", ".join(point.names), setting_text(point.setting, baseline)]
    if point.extrapolates:
        lines.append(f"extrapolated: {extrapolated_text(point.extrapolates)}")
    return (
        letter(point),
        "\n".join(printable(line) for line in lines if line),
        format_seconds(point.return_s),
        format_size(point.at_risk_bytes),
        "" if point.durable_s is None else format_seconds(point.durable_s),
        counted(point.runs, "run") if point.is_measured else "predicted",
    )


def _is_recommended(point: Point) -> bool:
    return RECOMMENDED_NAME in point.names


def setting_text(setting: Setting, baseline: Baseline) -> str:
    """Return the setting, with mount options only if they differ from the current mount."""
    shown = notable(setting)
    is_changed = baseline.changed_options(setting)
    return str(shown if is_changed else replace(shown, mount_options=None))


def letter(point: Point) -> str:
    """Return its mark in the plot; a lower-case letter is a prediction."""
    letters = [mark for name, mark in _LETTERS.items() if name in point.names]
    if not letters:
        return _ORDINARY
    return letters[-1] if point.is_measured else letters[-1].lower()


def plot(points: Sequence[Point], width: int) -> str:
    """Return the points as letters, `width` columns wide; y is time, x is bytes at risk."""
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, _HEIGHT)
    for point in sorted(points, key=_prominence):
        at = ([point.at_risk_bytes], [point.return_s])
        figure.draw(figure.signal(*at, marker=letter(point)))
    _scale(figure.ruler("x"), [point.at_risk_bytes for point in points], format_size)
    _scale(figure.ruler("y"), [point.return_s for point in points], format_seconds)
    figure.label("bytes at risk", "x")
    figure.label("time to return", "y")
    text = plotext.uncolorize(figure.build().string())
    figure.clear()
    return "\n".join(line.rstrip() for line in str(text).splitlines())


def _prominence(point: Point) -> int:
    letters = [_ORDINARY, *_LETTERS.values()]
    return letters.index(letter(point).upper())


def _scale(ruler: object, values: Sequence[float], show: Callable[[float], str]) -> None:
    """Return a scale from 0 to a little above the largest value, with ticks in units."""
    top = max(values) * 1.05 or 1.0
    ticks = [top * step / _TICKS for step in range(_TICKS + 1)]
    ruler.lim(0, top)  # type: ignore[attr-defined]
    ruler.ticks(ticks, [show(tick) if tick else "0" for tick in ticks])  # type: ignore[attr-defined]
