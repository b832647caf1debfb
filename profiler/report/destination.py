"""Where a report goes: a stream that is open, or a new file."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import IO

from contracts.errors import UsageError, WritewiseError
from contracts.text import printable
from sysctl.host.signals import signals_held_back


@contextlib.contextmanager
def new_file(path: str) -> Iterator[IO[str]]:
    """A buffer whose text goes to a new file when the context ends.

    The file is made at the beginning, and taken away if the context raises. Raises UsageError when
    it cannot be made, WritewiseError when it cannot be written.
    """
    with contextlib.ExitStack() as on_failure:
        with signals_held_back():
            file = _make(path)
            on_failure.callback(os.unlink, path)
        with file:
            report = io.StringIO()
            yield report
            _save(report.getvalue(), file)
        on_failure.pop_all()


def _make(path: str) -> IO[str]:
    try:  # O_EXCL follows no symlink
        return open(path, "x", encoding="utf-8")  # noqa: PTH123
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot write {printable(path)}: {reason}"
        raise UsageError(message, "name a new file in a directory that exists") from None


def _save(text: str, file: IO[str]) -> None:
    try:
        with file:  # what the disk refuses is told by the close at the latest
            file.write(text)
    except OSError as error:
        message = f"the report cannot be written to {printable(file.name)}: {error.strerror}"
        raise WritewiseError(message, "name a file on a disk with room") from None
