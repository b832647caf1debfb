# SPDX-License-Identifier: Apache-2.0
"""`--html FILE`: a command's document as one HTML file, next to what it prints."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from contracts.shared.errors import UsageError
from profiler.cli import argument_types as types

#: Writes the report of a command; its content is made only if it was asked for.
WriteHtml = Callable[[str, Callable[[], Mapping[str, object]]], None]


def add_html(parser: argparse._ActionsContainer) -> argparse.Action:
    """Add `--html FILE`, and return it."""
    return parser.add_argument(
        "--html",
        metavar="FILE",
        type=types.file,
        help="also write the report as an HTML file",
    )


def refuse_html(arguments: argparse.Namespace) -> None:
    """Raise UsageError if a report was asked for where nothing is measured."""
    if arguments.html is not None:
        raise UsageError("--dry-run measures nothing that --html could show", "omit one of them")


@contextlib.contextmanager
def html_file(arguments: argparse.Namespace) -> Iterator[WriteHtml]:
    """Yield what writes the report; the file is created now, before anything is measured.

    Raises UsageError if it cannot be created.
    """
    if arguments.html is None:
        yield _write_nothing
        return
    from profiler.report.destination import new_file

    with new_file(str(arguments.html)) as file:
        yield lambda command, content: write_html(command, content(), file)


def write_html(command: str, content: Mapping[str, object], file: IO[str]) -> None:
    """Write the report of a command's document."""
    from profiler.cli.json_documents import document_of
    from profiler.html.pages import page_text

    file.write(page_text(document_of(command, content)))


def _write_nothing(_: str, __: Callable[[], Mapping[str, object]]) -> None:
    """Write nothing: no file was asked for."""
