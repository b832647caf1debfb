# SPDX-License-Identifier: Apache-2.0
"""Marks of points, which differ in form and not only in colour, and the samples of a key."""

from __future__ import annotations

from markupsafe import Markup

from profiler.html.charts.chart import KeyEntry
from profiler.html.charts.svg import Node, box, element, line

_SIZE = 5.0


def mark(form: str, x: float, y: float, class_: str, *children: Node) -> Markup:
    """Return a mark: circle, square, diamond, triangle, cross or arrow (upwards)."""
    shapes = {
        "square": f"M{x - 4.5:.1f} {y - 4.5:.1f}h9v9h-9Z",
        "diamond": f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6Z",
        "triangle": f"M{x:.1f} {y - 6:.1f}l6 11h-12Z",
        "cross": f"M{x - 4.5:.1f} {y - 4.5:.1f}l9 9m0 -9l-9 9",
        "arrow": f"M{x:.1f} {y + 6:.1f}v-12m-4 5l4 -5l4 5",
    }
    if form == "circle":
        return element("circle", *children, cx=x, cy=y, r=_SIZE, class_=class_)
    return element("path", *children, d=shapes[form], class_=class_)


def sample(entry: KeyEntry) -> Markup:
    """Return a small drawing of a key's entry, which its text explains."""
    if entry.form == "area":
        inside = box(1, 2, 22, 12, entry.class_)
    elif entry.form == "line":
        inside = line(1, 8, 23, 8, entry.class_)
    elif entry.form == "stroke":
        inside = line(12, 1, 12, 15, entry.class_)
    else:
        inside = mark(entry.form, 12, 8, entry.class_)
    return element("svg", inside, viewBox="0 0 24 16", class_="sample", aria_hidden="true")
