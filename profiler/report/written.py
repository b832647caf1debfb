# SPDX-License-Identifier: Apache-2.0
"""The files of a recommendation: what was written where, and what could not be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from contracts.shared.text import printable
from profiler.report.console import print_lines

_HANGING = 6


def print_written(
    written: Sequence[Path], left_out: Sequence[str], removed: Sequence[Path], console: Console
) -> None:
    """Print a line for each file; `left_out` has the formats without a file, and why."""
    lines = [*_lines(written, left_out, removed)]
    if lines:
        console.print()
    print_lines(lines, console, hanging=_HANGING)


def _lines(
    written: Sequence[Path], left_out: Sequence[str], removed: Sequence[Path]
) -> Iterator[str]:
    for path in written:
        yield f"wrote {printable(str(path))}"
    for sentence in left_out:
        yield f"not written: {printable(sentence)}"
    for path in removed:
        yield f"removed {printable(str(path))} (of an earlier advice that differs)"
    if written:
        yield "The first lines of each file say how to use it and how to undo it."
