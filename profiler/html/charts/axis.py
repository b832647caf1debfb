# SPDX-License-Identifier: Apache-2.0
"""The upright axis of a chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from markupsafe import Markup

from profiler.html.charts.scale import Ticks
from profiler.html.charts.svg import line, text


def height_axis(
    ticks: Ticks, height_of: Callable[[float], float], left: float, right: float
) -> Iterator[Markup]:
    """Yield a line across the plot for each tick, with its text to the left of the plot."""
    for value, shown in zip(ticks.values, ticks.texts):
        at = height_of(value)
        yield line(left, at, right, at, "grid" if value else "axis")
        yield text(shown, left - 8, at + 4, "tick", anchor="end")
