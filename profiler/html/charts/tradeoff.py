# SPDX-License-Identifier: Apache-2.0
"""Time to return against bytes at risk, with the range of the runs of each setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from profiler.html.charts import scale
from profiler.html.charts.axis import height_axis
from profiler.html.charts.chart import LINE, WIDTH, Chart, DataTable, KeyEntry, chart_of, width_of
from profiler.html.charts.marks import mark
from profiler.html.charts.svg import element, line, path, text

_LEFT, _RIGHT, _TOP, _HEIGHT = 78.0, 24.0, 30.0, 280.0
_MOST = 400


@dataclass(frozen=True)
class RiskPoint:
    """A setting: `names` are shown next to it, `setting` when it is pointed at.

    `shortest_s` and `longest_s` are the extremes of its runs; None if it is predicted.
    """

    setting: str
    names: tuple[str, ...]
    at_risk_bytes: float
    return_s: float
    shortest_s: float | None
    longest_s: float | None
    is_best: bool = False
    is_current: bool = False


def trade_off_chart(points: Sequence[RiskPoint], table: DataTable) -> Chart | None:
    """Return the chart; None for fewer than two points."""
    if len(points) < 2:
        return None
    drawn = [*[each for each in points if each.names], *[e for e in points if not e.names]][:_MOST]
    highest_s = max(max(each.return_s, each.longest_s or 0.0) for each in drawn)
    x_ticks = scale.size_ticks(max(each.at_risk_bytes for each in drawn), 7)
    y_ticks = scale.seconds_ticks(highest_s, 5)
    bottom = _TOP + _HEIGHT
    x = scale.Scale(0.0, x_ticks.top, _LEFT, WIDTH - _RIGHT)
    y = scale.Scale(0.0, y_ticks.top, bottom, _TOP)
    parts: list[Markup] = [text("Time to return", 0, LINE - 3, "panel-title")]
    parts += height_axis(y_ticks, y.at, _LEFT, WIDTH - _RIGHT)
    for value, shown in zip(x_ticks.values, x_ticks.texts):
        at = x.at(value)
        parts.append(line(at, bottom, at, bottom + 5, "axis"))
        parts.append(text(shown, at, bottom + LINE + 3, "tick", anchor="middle"))
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    height = bottom + 2 * LINE + 8
    parts.append(text("Bytes at risk", middle, height - 5, "panel-title", anchor="middle"))
    front = [(x.at(risk), y.at(time)) for risk, time in _front(drawn)]
    parts.append(path(front, "frontier"))
    for point in reversed(drawn):
        parts += _point(point, x, y)
    parts += _labels(drawn, x, y)
    title = "Time against bytes at risk"
    summary = (
        "Each point is a setting: lower is faster, further left loses less if the instance ends. "
        "The dashed line joins the settings that no other beats in both."
    )
    return chart_of("trade-off", title, summary, height, parts, table, _key(drawn))


def _point(point: RiskPoint, x: scale.Scale, y: scale.Scale) -> Iterator[Markup]:
    left, top = x.at(point.at_risk_bytes), y.at(point.return_s)
    if point.shortest_s is not None and point.longest_s is not None:
        yield line(left, y.at(point.shortest_s), left, y.at(point.longest_s), "span")
    yield mark(_form(point), left, top, _class(point), element("title", point.setting))


def _form(point: RiskPoint) -> str:
    if point.is_best:
        return "diamond"
    return "square" if point.is_current else "circle"


def _class(point: RiskPoint) -> str:
    if point.is_best:
        return "mark mark-best"
    if point.is_current:
        return "mark mark-now"
    return "mark" if point.shortest_s is not None else "mark mark-predicted"


def _labels(points: Sequence[RiskPoint], x: scale.Scale, y: scale.Scale) -> Iterator[Markup]:
    """Yield the names next to their points, moved apart where they would overlap."""
    named = [each for each in points if each.names]
    wanted = [y.at(each.return_s) - 14 for each in named]
    heights = scale.spread_out(wanted, LINE, _TOP + 6, _TOP + _HEIGHT - 8)
    for point, height in zip(named, heights):
        shown, left = ", ".join(point.names), x.at(point.at_risk_bytes)
        class_ = "label label-main" if point.is_best else "label"
        is_at_end = left + 12 + width_of(shown) > WIDTH - 4
        anchor = "end" if is_at_end else None
        yield text(shown, left + (-11 if is_at_end else 11), height + 4, class_, anchor=anchor)


def _front(points: Sequence[RiskPoint]) -> list[tuple[float, float]]:
    """Return the points that no other beats in both, from the fewest bytes at risk on."""
    front: list[tuple[float, float]] = []
    for risk, time_s in sorted((each.at_risk_bytes, each.return_s) for each in points):
        if not front or time_s < front[-1][1]:
            front.append((risk, time_s))
    return front


def _key(points: Sequence[RiskPoint]) -> Iterator[KeyEntry]:
    if any(each.is_best for each in points):
        yield KeyEntry("mark mark-best", "diamond", "recommended")
    yield KeyEntry("mark mark-now", "square", "current")
    yield KeyEntry("mark", "circle", "measured")
    if any(each.shortest_s is None for each in points):
        yield KeyEntry("mark mark-predicted", "circle", "predicted, not measured")
    yield KeyEntry("span", "stroke", "shortest to longest run")
