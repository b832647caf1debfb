# SPDX-License-Identifier: Apache-2.0
"""Opens a file to append to as root, in a directory where other users may have replaced it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import IO

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.writing import directory_of

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
#: A record contains the command line, which may contain secrets that no rule here recognises.
_MODE = 0o600
_FIRST_LINE_BYTES = 65536
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_to_append(path: str, is_ours: Callable[[str], bool]) -> IO[str]:
    """Open a new or existing log for appending, as line-buffered UTF-8 text.

    An existing file must be regular, have one name, be owned by this user or root, be writable by
    no others, and be empty or have a first line for which `is_ours` returns true. A final symlink
    is not followed, nor one in the path that other users could have made. An unfinished last line
    is removed. Raises UsageError.
    """
    try:
        descriptor = _create_or_open(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(path, reason) from None
    problem = _problem(os.fstat(descriptor)) or _content_problem(descriptor, is_ours)
    if problem:
        os.close(descriptor)
        raise _refused(path, problem)
    _cut_unfinished_line(descriptor)
    return open(descriptor, "a", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: PTH123


def _create_or_open(path: str) -> int:
    with directory_of(path) as (directory, name):
        try:
            return os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE, dir_fd=directory)
        except FileExistsError:
            return os.open(name, _FLAGS, dir_fd=directory)


def _problem(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid not in (0, os.geteuid()):
        return "it belongs to another user"
    if status.st_mode & _OTHERS_MAY_WRITE:
        return "other users can write to it"
    return "" if status.st_nlink == 1 else "it has several names (hard links)"


def _content_problem(descriptor: int, is_ours: Callable[[str], bool]) -> str:
    head = os.pread(descriptor, _FIRST_LINE_BYTES, 0).decode(errors="replace")
    return "" if not head or is_ours(head.split("\n")[0]) else "it is not a log in this format"


def _cut_unfinished_line(descriptor: int) -> None:
    """Remove an incomplete last line, which a full disk or a kill has left."""
    size_bytes = os.fstat(descriptor).st_size
    start = max(0, size_bytes - _FIRST_LINE_BYTES)
    unfinished_bytes = len(os.pread(descriptor, _FIRST_LINE_BYTES, start).rpartition(b"\n")[2])
    if unfinished_bytes:
        os.ftruncate(descriptor, size_bytes - unfinished_bytes)


def _refused(path: str, reason: str) -> UsageError:
    hint = "use a new file, or a log that only you can write to"
    return UsageError(f"cannot append to {printable(path)}: {reason}", hint)
