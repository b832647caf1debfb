"""Where tables go: standard output."""

from __future__ import annotations

import sys

from rich.console import Console

#: Wide enough for every line, where there is no terminal whose width it has.
FILE_COLUMNS = 120


def plain_console() -> Console:
    """Standard output, as wide as the terminal or a file's lines; brackets are text, no markup."""
    width = None if sys.stdout.isatty() else FILE_COLUMNS
    return Console(markup=False, highlight=False, width=width)
