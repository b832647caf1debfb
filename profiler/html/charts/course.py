# SPDX-License-Identifier: Apache-2.0
"""The computed course of a pull: the rate at which the volume is written, and its credits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from contracts.shared.units import format_minutes, format_rate
from profiler.html.charts import scale
from profiler.html.charts.chart import LINE, Chart, DataTable, chart_of
from profiler.html.charts.panel import LEFT, PLOT, Panel, time_axis
from profiler.html.charts.svg import line, path, text

_RATE_HEIGHT, _CREDIT_HEIGHT, _GAP = 150.0, 90.0, 16.0


@dataclass(frozen=True)
class CoursePhase:
    """A part of a pull with one rate; the balances of the credits are 0 to 1, or None."""

    begins_s: float
    ends_s: float
    bytes_per_s: float
    limited_by: str
    balance_before: float | None
    balance_after: float | None


def course_chart(phases: Sequence[CoursePhase], deadline_s: float | None) -> Chart | None:
    """Return the chart of a pull's phases; None without a phase."""
    if not phases or phases[-1].ends_s <= 0:
        return None
    whole_s = max(phases[-1].ends_s, min(deadline_s or 0.0, 1.5 * phases[-1].ends_s))
    ticks = scale.size_ticks(max(each.bytes_per_s for each in phases), 4, "/s")
    panel = Panel("Rate at which the volume is written", 0.0, _RATE_HEIGHT, whole_s, ticks)
    stairs = [
        point
        for each in phases
        for point in ((each.begins_s, each.bytes_per_s), (each.ends_s, each.bytes_per_s))
    ]
    places = panel.points(stairs)
    curves: list[Markup] = [
        path(places, "held-area", base=panel.height),
        path(places, "held"),
    ]
    labels = [text("limited by", LEFT + PLOT + 12, panel.height_of(phases[-1].bytes_per_s) - 10)]
    limited = phases[-1].limited_by
    labels.append(text(limited, LEFT + PLOT + 12, panel.height_of(phases[-1].bytes_per_s) + 6))
    if deadline_s is not None and deadline_s <= whole_s:
        at = panel.x.at(deadline_s)
        curves.append(line(at, 0, at, panel.height, "same"))
        labels.append(text("deadline", LEFT + at, LINE - 4, "label", anchor="middle"))
    panels = [panel.draw(curves, labels)]
    credits, bottom = _credits(phases, whole_s, panel.bottom + _GAP)
    panels += credits
    bottom = bottom if credits else panel.bottom
    moments = scale.moment_ticks(whole_s, 8)
    panels.append(time_axis(moments, whole_s, bottom, "since write-back"))
    title, summary = "The course of one pull", _summary(phases)
    return chart_of("course", title, summary, bottom + LINE + 8, panels, _table(phases))


def _credits(
    phases: Sequence[CoursePhase], whole_s: float, top: float
) -> tuple[list[Markup], float]:
    known = [
        ((each.begins_s, each.balance_before), (each.ends_s, each.balance_after))
        for each in phases
        if each.balance_before is not None and each.balance_after is not None
    ]
    if not known:
        return [], top
    ticks = scale.share_ticks(1.0, 2)
    panel = Panel("Credits of the volume", top, _CREDIT_HEIGHT, whole_s, ticks)
    points = panel.points([(time, level or 0.0) for pair in known for time, level in pair])
    curves = [path(points, "writeback", base=panel.height), path(points, "held")]
    last = known[-1][1][1] or 0.0
    label = text(f"{last:.0%} left", LEFT + PLOT + 12, panel.height_of(last) + 4)
    return [panel.draw(curves, [label])], panel.bottom


def _summary(phases: Sequence[CoursePhase]) -> str:
    parts = [
        f"{format_rate(each.bytes_per_s)} until {format_minutes(each.ends_s)}, limited by the "
        f"{each.limited_by}"
        for each in phases[:4]
    ]
    more = f", and {len(phases) - 4} more parts" if len(phases) > 4 else ""
    return f"{'; then '.join(parts)}{more}."


def _table(phases: Sequence[CoursePhase]) -> DataTable:
    def balance(level: float | None) -> str:
        return "–" if level is None else f"{level:.0%}"

    rows = tuple(
        (
            format_minutes(each.begins_s),
            format_minutes(each.ends_s),
            format_rate(each.bytes_per_s),
            each.limited_by,
            balance(each.balance_before),
            balance(each.balance_after),
        )
        for each in phases[:200]
    )
    titles = ("from", "to", "rate", "limited by", "credits before", "credits after")
    return DataTable(titles, rows, frozenset({0, 1, 2, 4, 5}))
