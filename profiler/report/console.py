# SPDX-License-Identifier: Apache-2.0
"""Where reports go, and how wide they are.

On a terminal everything fits its width: sentences are broken between words, tables are folded. A
file or a pipe gets each sentence on one line (for grep), and tables of `FILE_COLUMNS`. Only a
terminal gets escape codes; with NO_COLOR set nothing does.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable
from typing import IO, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.shared.text import printable

#: The width of tables without a terminal.
FILE_COLUMNS = 80
#: The blank between a number and its unit, and what replaces it while lines are broken.
_UNIT = re.compile(r"(?<=\d) (?=(?:[KMGTPE]iB(?:/s)?|B|s|ms|µs|ns|min|h|d)\b)")
_NO_BREAK = "\u00a0"
_COMMAND = re.compile(r"`[^`]+`")


def plain_console(file: IO[str] | None = None) -> Console:
    """Return a console on `file` (default: standard output); brackets are text, not markup."""
    stream = file or sys.stdout
    width = None if stream.isatty() else FILE_COLUMNS
    system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(file=stream, markup=False, highlight=False, width=width, color_system=system)


def error_console() -> Console:
    """Return the same on standard error."""
    return plain_console(sys.stderr)


def print_lines(
    lines: Iterable[str], console: Console, style: str = "", *, hanging: int = 0
) -> None:
    """Print each line; a terminal breaks it between words and indents the rest by `hanging`.

    A word longer than the line (a path) stays whole, so that it can be copied.
    """
    for line in lines:
        text = printable(line)
        if console.is_terminal:
            text = _broken(text, console.width, hanging)
        console.print(Text(text, style=style), soft_wrap=True)


def print_copyable(line: str, console: Console, style: str = "") -> None:
    """Print a line unbroken, whatever the terminal's width: a command, or a line of a file."""
    console.print(Text(printable(line), style=style), soft_wrap=True)


def plain_table(*titles: str) -> Table:
    """Return a table without lines; a narrow terminal folds cells and never cuts them."""
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _broken(text: str, width: int, hanging: int) -> str:
    """Break between words; a number with its unit, or a command in backquotes, is one word."""
    own = len(text) - len(text.lstrip())
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", _NO_BREAK), text.strip())
    broken = textwrap.fill(
        _UNIT.sub(_NO_BREAK, whole),
        max(width, 2 * hanging, 2 * own),
        initial_indent=" " * own,
        subsequent_indent=" " * max(own, hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return broken.replace(_NO_BREAK, " ")
