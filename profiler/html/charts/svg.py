# SPDX-License-Identifier: Apache-2.0
"""SVG elements as text. Everything from outside goes through `element`, which escapes it.

`Markup` is text that is HTML already; only this module and `profiler.html.rendering` make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Union

from markupsafe import Markup, escape

from contracts.shared.text import printable

#: The value of an attribute; None leaves the attribute out.
AttributeValue = Union[str, float, None]
Node = Union[str, Markup]


def number(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def element(name: str, *children: Node, **attributes: AttributeValue) -> Markup:
    """Return an element; text in it and in its attributes is escaped.

    The name of an attribute has `_` for `-`, and one at its end if Python has the word: `class_`.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(_child(each) for each in children)
    return Markup(f"<{name}{words}>{inside}</{name}>")  # noqa: S704 - all parts are escaped


def group(children: Iterable[Node], **attributes: AttributeValue) -> Markup:
    """Return a `g` element."""
    return element("g", *children, **attributes)


def text(content: str, x: float, y: float, class_: str = "label", **more: AttributeValue) -> Markup:
    """Return a text at a point; `anchor` is start (default), middle or end."""
    anchor = more.pop("anchor", None)
    return element("text", content, x=x, y=y, class_=class_, text_anchor=anchor, **more)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, *children: Node) -> Markup:
    """Return a rectangle."""
    shown = {"x": x, "y": y, "width": max(0.0, width), "height": max(0.0, height)}
    return element("rect", *children, class_=class_, **shown)


def path(
    points: Sequence[tuple[float, float]], class_: str, *, base: float | None = None
) -> Markup:
    """Return a line through the points; with `base` the area between them and that height."""
    return element("path", d=outline(points, base), class_=class_)


def outline(points: Sequence[tuple[float, float]], base: float | None = None) -> str:
    """Return the commands of a path; points on a horizontal or vertical line are left out."""
    steps: list[str] = []
    kept = _corners([(number(x), number(y)) for x, y in points])
    for at, (x, y) in enumerate(kept):
        before = kept[at - 1] if at else None
        if before is None:
            steps.append(f"M{x} {y}")
        elif before[1] == y:
            steps.append(f"H{x}")
        elif before[0] == x:
            steps.append(f"V{y}")
        else:
            steps.append(f"L{x} {y}")
    if base is not None and kept:
        steps.append(f"V{number(base)}H{kept[0][0]}Z")
    return "".join(steps)


def _corners(points: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    kept: list[tuple[str, str]] = []
    for point in points:
        if len(kept) > 1:
            same_height = kept[-2][1] == kept[-1][1] == point[1]
            same_place = kept[-2][0] == kept[-1][0] == point[0] and kept[-1] == point
            if same_height or same_place:
                kept.pop()
        kept.append(point)
    return kept


def _value(value: AttributeValue) -> str:
    shown = number(value) if isinstance(value, (int, float)) else str(value)
    return str(escape(shown if shown.isprintable() else printable(shown)))


def _child(child: Node) -> Markup:
    return child if isinstance(child, Markup) else escape(printable(child))
