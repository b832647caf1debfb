# SPDX-License-Identifier: Apache-2.0
"""Where a report goes: an open stream, or a new file."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from contracts.shared.errors import UsageError, WritewiseError
from contracts.shared.text import printable
from contracts.shared.writing import create, directory_of
from sysctl.host.signals import signals_held_back


@contextlib.contextmanager
def new_file(path: str) -> Iterator[IO[str]]:
    """Yield a buffer whose text goes to a new file when the context ends.

    The file is created at the beginning, and removed if the context raises. Raises UsageError when
    it cannot be created, WritewiseError when it cannot be written or was removed or replaced: then
    the text goes to standard error.
    """
    if Path(path).is_dir():
        raise UsageError(f"{printable(path)} is a directory", "name a new file in it")
    with contextlib.ExitStack() as kept, contextlib.ExitStack() as on_failure:
        with signals_held_back(), _errors(path):
            directory, name = kept.enter_context(directory_of(path))
            file = os.fdopen(create(directory, name), "w", encoding="utf-8")
            made = os.fstat(file.fileno())
            on_failure.callback(_remove, made, directory, name)
        with file:
            report = io.StringIO()
            yield report
            _save(report.getvalue(), file, path)
        on_failure.pop_all()
        is_there = _is_named(made, directory, name)
    if not is_there:
        sys.stderr.write(report.getvalue())
        raise WritewiseError(
            f"{printable(path)} was removed or replaced during the run: its report is above",
            "name a file that the profiled program does not touch",
        )


def _remove(made: os.stat_result, directory: int, name: str) -> None:
    if _is_named(made, directory, name):
        os.unlink(name, dir_fd=directory)


def _is_named(made: os.stat_result, directory: int, name: str) -> bool:
    """Return whether the name still refers to the file that was created."""
    try:
        return os.path.samestat(made, os.stat(name, dir_fd=directory, follow_symlinks=False))
    except OSError:
        return False


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot write {printable(path)}: {reason}"
        raise UsageError(message, "name a new file in a directory that exists") from None


def _save(text: str, file: IO[str], path: str) -> None:
    try:
        with file:  # a disk error shows at the latest when it is closed
            file.write(text)
    except OSError as error:
        message = f"the report cannot be written to {printable(path)}: {error.strerror}"
        raise WritewiseError(message, "name a file on a disk with room") from None
