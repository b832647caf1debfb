# SPDX-License-Identifier: Apache-2.0
"""A curve as an area of blocks, for a terminal: a few rows, with a column for each value."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:#"
_LABEL_COLUMNS = 12


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


def labelled(rows: Sequence[str], name: str, top: str) -> list[str]:
    """Return the rows with the curve's name, the value at the top, and 0 at the bottom."""
    labels = [top, name, *[""] * (len(rows) - 3), "0"] if len(rows) > 2 else [top, name]
    return [f"{label:>{_LABEL_COLUMNS - 2}} ┤{row}" for label, row in zip(labels, rows)]


def chart_columns(width: int) -> int:
    """Return how many values fit into lines of that width."""
    return max(10, width - _LABEL_COLUMNS)


def axis(left: str, right: str, columns: int) -> str:
    """Return the line below the curves, with the texts of both ends."""
    return " " * _LABEL_COLUMNS + left + right.rjust(columns - len(left))
