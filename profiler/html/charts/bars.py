# SPDX-License-Identifier: Apache-2.0
"""Bars: a length for each name, and a distribution of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from contracts.shared.units import counted, format_count, format_duration
from profiler.html.charts import scale
from profiler.html.charts.axis import height_axis
from profiler.html.charts.chart import LINE, WIDTH, Chart, DataTable, chart_of, room_for, shortened
from profiler.html.charts.svg import box, element, line, text

_RIGHT = 190.0
_ROW, _THICK = 30.0, 16.0
_TOP, _PLOT_HEIGHT = 26.0, 170.0
_AXIS_LEFT = 78.0


@dataclass(frozen=True)
class Bar:
    """A bar: its name, its length, the text at its end, and whether it is the one that matters."""

    name: str
    value: float
    shown: str
    is_main: bool = False


def bar_chart(
    name: str, title: str, summary: str, bars: Sequence[Bar], titles: tuple[str, str]
) -> Chart:
    """Return a horizontal bar for each entry; `titles` are those of the table's columns."""
    highest = max((bar.value for bar in bars), default=0.0) or 1.0
    left = room_for(bar.name for bar in bars)
    x = scale.Scale(0.0, highest, left, WIDTH - _RIGHT)
    parts: list[Markup] = []
    for number, bar in enumerate(bars):
        middle = _ROW * number + _ROW / 2
        class_ = "bar bar-main" if bar.is_main else "bar"
        label = "label label-main" if bar.is_main else "label"
        parts.append(
            text(shortened(bar.name, left - 20), left - 12, middle + 4, label, anchor="end")
        )
        width = x.at(bar.value) - left
        if bar.value > 0:
            parts.append(box(left, middle - _THICK / 2, max(1.5, width), _THICK, class_))
        parts.append(text(bar.shown, left + width + 10, middle + 4, label))
    height = _ROW * len(bars)
    parts.append(line(left, 0, left, height, "axis"))
    rows = tuple((bar.name, bar.shown) for bar in bars)
    return chart_of(name, title, summary, height, parts, DataTable(titles, rows, frozenset({1})))


def latency_chart(octaves: Sequence[tuple[int, int, int]]) -> Chart | None:
    """Return how many calls took how long: (from ns, below ns, calls); None without calls."""
    total = sum(calls for _, _, calls in octaves)
    if not total:
        return None
    ticks = scale.power_ticks(max(calls for _, _, calls in octaves))
    y = scale.Scale(0.5, ticks.top, _TOP + _PLOT_HEIGHT, _TOP, is_log=True)
    parts: list[Markup] = [text("Calls, on a logarithmic scale", 0, LINE - 4, "panel-title")]
    parts += height_axis(ticks, y.at, _AXIS_LEFT, WIDTH)
    bottom = _TOP + _PLOT_HEIGHT
    width = min(60.0, (WIDTH - _AXIS_LEFT - 40) / len(octaves))
    every = max(1, int(62 / width) + (62 % width > 0)) if width < 62 else 1
    for number, (low, high, calls) in enumerate(octaves):
        begin = _AXIS_LEFT + 8 + width * number
        if calls:
            top = y.at(calls)
            named = element("title", f"{_range(low, high)}: {counted(calls, 'call')}")
            parts.append(box(begin, top, width - 2, bottom - top, "bar", named))
        if number % every == 0:
            parts.append(line(begin - 1, bottom, begin - 1, bottom + 5, "axis"))
            parts.append(text(format_duration(low), begin - 1, bottom + LINE + 3, "tick"))
    parts.append(line(_AXIS_LEFT, bottom, WIDTH, bottom, "axis"))
    title = "How long write calls took"
    summary = _latency_summary(octaves, total)
    rows = tuple(
        (_range(low, high), format_count(calls), f"{calls / total:.2%}")
        for low, high, calls in octaves
    )
    return chart_of(
        "latency",
        title,
        summary,
        bottom + LINE + 8,
        parts,
        DataTable(("latency", "calls", "share"), rows, frozenset({1, 2})),
    )


def _range(low: int, high: int) -> str:
    return f"{format_duration(low)} to {format_duration(high)}"


def _latency_summary(octaves: Sequence[tuple[int, int, int]], total: int) -> str:
    def below(share: float) -> int:
        seen = 0
        for _, high, calls in octaves:
            seen += calls
            if seen >= share * total:
                return high
        return octaves[-1][1]

    return (
        f"Of {counted(total, 'call')}, half took less than {format_duration(below(0.5))}, 99 in "
        f"100 less than {format_duration(below(0.99))}; the longest took less than "
        f"{format_duration(octaves[-1][1])}."
    )
