# SPDX-License-Identifier: Apache-2.0
"""Estimates with their intervals and the single measurements behind them, one row for each name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from profiler.html.charts import scale
from profiler.html.charts.chart import (
    LINE,
    WIDTH,
    Chart,
    DataTable,
    KeyEntry,
    chart_of,
    room_for,
    shortened,
)
from profiler.html.charts.marks import mark
from profiler.html.charts.svg import element, line, text

_ROW = 34.0
_TOP = 8.0
_END = 6.0


@dataclass(frozen=True)
class IntervalRow:
    """A row: `singles` are the measurements, `shown` is the text at the end of the row.

    `low` and `high` are None without an interval; a `high` beyond the axis gets an arrow.
    """

    name: str
    estimate: float
    shown: str
    low: float | None = None
    high: float | None = None
    singles: tuple[float, ...] = ()
    is_best: bool = False


def interval_chart(
    name: str,
    title: str,
    summary: str,
    rows: Sequence[IntervalRow],
    ticks: scale.Ticks,
    table: DataTable,
    *,
    same: tuple[float, str] | None = None,
    single: str = "one measurement",
    interval: str = "95% interval",
) -> Chart:
    """Return a row for each estimate; `same` is a line across them with its name."""
    left, right = room_for(row.name for row in rows), room_for(row.shown for row in rows) + 14
    x = scale.Scale(0.0, ticks.top, left, WIDTH - right)
    bottom = _TOP + _ROW * len(rows)
    parts: list[Markup] = []
    for value, shown in zip(ticks.values, ticks.texts):
        parts.append(line(x.at(value), _TOP, x.at(value), bottom, "grid" if value else "axis"))
        parts.append(text(shown, x.at(value), bottom + LINE, "tick", anchor="middle"))
    if same is not None:
        at = x.at(same[0])
        parts.append(line(at, _TOP, at, bottom, "same"))
        parts.append(text(same[1], at, bottom + 2 * LINE, "label", anchor="middle"))
    for number, row in enumerate(rows):
        parts += _row(row, x, _TOP + _ROW * (number + 0.5))
    height = bottom + LINE * (2 if same else 1) + 8
    return chart_of(name, title, summary, height, parts, table, _key(rows, single, interval))


def _row(row: IntervalRow, x: scale.Scale, y: float) -> Iterator[Markup]:
    best = " span-best" if row.is_best else ""
    label = "label label-main" if row.is_best else "label"
    name = element("title", row.name)
    short = shortened(row.name, x.start - 20)
    yield element("text", short, name, x=x.start - 14, y=y + 4, class_=label, text_anchor="end")
    for value in row.singles:
        yield line(x.at(value), y - 9, x.at(value), y + 9, "tip")
    if row.low is not None:
        yield from _span(row.low, row.high, x, y, f"span{best}")
    yield mark("circle", x.at(row.estimate), y, f"mark mark-{'best' if row.is_best else 'now'}")
    yield text(row.shown, x.end + 20, y + 4, label)


def _span(
    low: float, high: float | None, x: scale.Scale, y: float, class_: str
) -> Iterator[Markup]:
    begin, end = x.at(low), x.at(x.high if high is None else high)
    yield line(begin, y, end, y, class_)
    yield line(begin, y - _END, begin, y + _END, class_)
    if high is None or high > x.high:
        arrow = f"M{end - 7:.1f} {y - _END:.1f}L{end:.1f} {y:.1f}L{end - 7:.1f} {y + _END:.1f}"
        yield element("path", d=arrow, class_=class_)
    else:
        yield line(end, y - _END, end, y + _END, class_)


def _key(rows: Sequence[IntervalRow], single: str, interval: str) -> Iterator[KeyEntry]:
    yield KeyEntry("mark mark-now", "circle", "estimate")
    if any(row.low is not None for row in rows):
        yield KeyEntry("span", "line", interval)
    if any(row.singles for row in rows):
        yield KeyEntry("tip", "stroke", single)
    if any(row.is_best for row in rows):
        yield KeyEntry("mark mark-best", "circle", "recommended")
