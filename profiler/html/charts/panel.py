# SPDX-License-Identifier: Apache-2.0
"""A plot with a time axis: title, grid, and curves that the page can zoom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from profiler.html.charts.axis import height_axis
from profiler.html.charts.chart import LINE, WIDTH
from profiler.html.charts.scale import Scale, Ticks
from profiler.html.charts.svg import Node, element, group, line, text

LEFT, RIGHT = 78.0, 172.0
PLOT = WIDTH - LEFT - RIGHT
_TITLE = 26.0


@dataclass(frozen=True)
class Panel:
    """A plot below `top`, `height` high, with times from 0 to `whole` and the ticks of its values.

    Its curves have coordinates of their own, from 0 at the left and the top.
    """

    title: str
    top: float
    height: float
    whole: float
    ticks: Ticks

    @property
    def bottom(self) -> float:
        """The height of the line at 0."""
        return self.top + _TITLE + self.height

    @property
    def x(self) -> Scale:
        """Times to positions within the plot."""
        return Scale(0.0, self.whole, 0.0, PLOT)

    @property
    def y(self) -> Scale:
        """Values to heights within the plot."""
        return Scale(0.0, self.ticks.top, self.height, 0.0)

    def points(self, values: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Return the places of (time, value) within the plot."""
        x, y = self.x, self.y
        return [(x.at(time), y.at(value)) for time, value in values]

    def draw(self, curves: Sequence[Node], labels: Sequence[Node] = ()) -> Markup:
        """Return the panel with these curves, and with labels next to the plot."""
        return group([*self._frame(), self._plot(curves), *labels])

    def height_of(self, value: float) -> float:
        """Return the height of a value in the whole drawing, for a text next to the plot."""
        return self.top + _TITLE + self.y.at(value)

    def _plot(self, curves: Sequence[Node]) -> Markup:
        return element(
            "svg",
            *curves,
            x=LEFT,
            y=self.top + _TITLE,
            width=PLOT,
            height=self.height,
            viewBox=f"0 0 {PLOT:g} {self.height:g}",
            preserveAspectRatio="none",
            class_="plot",
        )

    def _frame(self) -> list[Markup]:
        title = text(self.title, 0, self.top + LINE - 4, "panel-title")
        return [title, *height_axis(self.ticks, self.height_of, LEFT, LEFT + PLOT)]


def time_axis(ticks: Ticks, whole: float, top: float, label: str) -> Markup:
    """Return the texts of a time axis below `top`; the page draws them again after a zoom."""
    x = Scale(0.0, whole, LEFT, LEFT + PLOT)
    marks: list[Markup] = []
    for value, shown in zip(ticks.values, ticks.texts):
        at = x.at(value)
        marks.append(line(at, top, at, top + 5, "axis"))
        marks.append(text(shown, at, top + LINE + 3, "tick", anchor="middle"))
    return group([group(marks, class_="moments"), text(label, LEFT + PLOT + 26, top + LINE + 3)])
