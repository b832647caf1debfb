# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def cell(text: str) -> str:
    """Return text that neither ends the cell nor is markup."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def code(text: str) -> str:
    """Return code in a cell."""
    return f"`{text}`".replace("|", "\\|")


def anchor(heading: str) -> str:
    """Return the anchor that a renderer makes from a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
