# SPDX-License-Identifier: Apache-2.0
"""A curve as an area of blocks, for a terminal: a few rows, with a column for each value."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:#"
_LABEL_COLUMNS = 14


def area_rows(
    values: Sequence[float], top: float, rows: int, *, is_ascii: bool = False
) -> list[str]:
    """Return `rows` lines, with a column for each value from 0 to `top`; more is cut off."""
    blocks = _ASCII if is_ascii else _EIGHTHS
    steps = len(blocks) - 1
    filled = [round(min(1.0, value / top) * rows * steps) if top else 0 for value in values]
    # a small value stays visible
    filled = [max(1, height) if value > 0 else 0 for height, value in zip(filled, values)]
    return [
        "".join(blocks[max(0, min(steps, height - row * steps))] for height in filled).rstrip()
        for row in reversed(range(rows))
    ]


def panel(caption: str, rows: Sequence[str], top: str) -> list[str]:
    """Return a caption, and the rows with the value at the top and 0 at the bottom."""
    labels = [top, *[""] * (len(rows) - 2), "0"]
    return [
        caption,
        *(f"{label:>{_LABEL_COLUMNS - 2}} ┤{row}" for label, row in zip(labels, rows)),
    ]


def chart_columns(width: int) -> int:
    """Return how many values fit into lines of that width."""
    return max(10, width - _LABEL_COLUMNS)


def axis(left: str, right: str, columns: int, mark: tuple[int, str] | None = None) -> str:
    """Return the line below the curves: the texts of both ends, and one below a column.

    That of the `mark` (column, text) begins there; it is left out if there is no room for it.
    """
    middle = ""
    if mark is not None:
        column, text = mark
        begins = min(column, columns - len(right) - len(text) - 2)
        if begins >= len(left) + 2:
            middle = " " * (begins - len(left)) + text
    rest = right.rjust(columns - len(left) - len(middle))
    return " " * _LABEL_COLUMNS + left + middle + rest
