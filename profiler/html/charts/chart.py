# SPDX-License-Identifier: Apache-2.0
"""A finished chart with its text alternative: a sentence and a table of the figures drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from profiler.html.charts.svg import Node, element

#: The width of every chart in its own units; the page scales it.
WIDTH = 960.0
#: The height of a line of text.
LINE = 17.0
#: The mean width of a character of a label, and of a bold one.
_CHARACTER, _BOLD = 6.6, 8.3
#: A label is shortened beyond this.
_WIDEST_LABEL = 390.0


@dataclass(frozen=True)
class DataTable:
    """A table: titles, rows of texts, and which columns are numbers. `note` stands below it."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    note: str | None = None


@dataclass(frozen=True)
class KeyEntry:
    """An entry of a chart's key: the class of the mark, its form, and its meaning.

    `form` is area, line, stroke (upright) or one of the marks of `profiler.html.charts.marks`.
    """

    class_: str
    form: str
    meaning: str


@dataclass(frozen=True)
class Chart:
    """A chart for the page; `name` is unique on it. `svg` has the title and the summary too."""

    name: str
    title: str
    summary: str
    svg: Markup
    table: DataTable
    key: tuple[KeyEntry, ...] = ()
    is_zoomable: bool = False


def chart_of(
    name: str,
    title: str,
    summary: str,
    height: float,
    parts: Iterable[Node],
    table: DataTable,
    key: Iterable[KeyEntry] = (),
) -> Chart:
    """Return the chart that these parts make; `height` is that of the drawing."""
    svg = drawing(name, title, summary, height, parts)
    return Chart(name, title, summary, svg, table, tuple(key))


def drawing(
    name: str, title: str, summary: str, height: float, children: Iterable[Node], **data: str
) -> Markup:
    """Return the `svg` element of a chart, with its name for those who do not see it."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", summary, id=f"{name}-desc"),
        *children,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_labelledby=f"{name}-title",
        aria_describedby=f"{name}-desc",
        class_="drawing",
        **data,
    )


def thinned_rows(
    rows: Sequence[tuple[str, ...]], most: int
) -> tuple[tuple[tuple[str, ...], ...], str | None]:
    """Return at most so many rows, and a note that says how many were left out."""
    if len(rows) <= most:
        return tuple(rows), None
    left = len(rows) - most
    return tuple(rows[:most]), f"{left:,} more rows are in the data below."


def room_for(labels: Iterable[str]) -> float:
    """Return how much room the labels of rows need, the widest in bold, up to a limit."""
    return min(_WIDEST_LABEL, max((_BOLD * len(each) for each in labels), default=0.0) + 24)


def shortened(label: str, room: float) -> str:
    """Return a label that fits into the room in bold; the chart's table has it whole."""
    most = max(4, int(room / _BOLD))
    return label if len(label) <= most else f"{label[: most - 1]}…"


def width_of(label: str) -> float:
    """Return about how wide a label is."""
    return _CHARACTER * len(label)
