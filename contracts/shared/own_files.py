# SPDX-License-Identifier: Apache-2.0
"""Files of an output folder that may be replaced: only those that an earlier run wrote."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from contracts.shared.beneath import open_file_beneath
from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.writing import directory_of

#: How much of a file is read to recognise it as ours; few of ours are larger.
_MAX_BYTES = 2**20


def require_replaceable(path: Path, is_ours: Callable[[bytes], bool], option: str) -> None:
    """Raise UsageError unless `path` is free or a regular file whose content `is_ours`.

    `option` is the option that names the folder, for the hint.
    """
    shown = printable(str(path))
    try:
        with directory_of(path) as (directory, name):
            is_free = not _exists(directory, name) or is_ours(content_of(directory, name))
    except OSError as error:
        message = f"cannot write {shown}: {error.strerror}"
        raise UsageError(message, f"name another folder with {option}") from None
    if not is_free:
        raise UsageError(
            f"{shown} was not written by Writewise, so it is not replaced",
            f"move it away, or name another folder with {option}",
        )


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def content_of(directory: int, name: str) -> bytes:
    """Return the beginning of a regular file; b"" for a symlink or an unreadable file."""
    try:  # the type is checked before the open, which alone would start some devices
        if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return b""
        with os.fdopen(open_file_beneath(directory, [name]), "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""
