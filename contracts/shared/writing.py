# SPDX-License-Identifier: Apache-2.0
"""Writing files as root where others can write too, without following their symlinks.

The directory is opened once (`trust.walk`), and every later step is relative to it: nobody can
replace it between a check and its use.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.trust import walk

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_READABLE_BY_ALL = 0o644


@contextlib.contextmanager
def directory_of(path: str | Path) -> Iterator[tuple[int, str]]:
    """Open the directory of `path`; the context has its descriptor and the file's name.

    Raises OSError, and UntrustedError for a symlink on the way that others could have made.
    """
    name = os.fspath(path).rpartition("/")[2]
    if name in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    directory = walk(os.fspath(path)[: -len(name)] or ".")
    try:
        yield directory, name
    finally:
        os.close(directory)


def create(directory: int, name: str) -> int:
    """Create a file (mode 0644) in an open directory; return its descriptor. Raises OSError."""
    return os.open(name, _NEW, _READABLE_BY_ALL, dir_fd=directory)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace `path` with a synced file (mode 0644); a symlink itself is replaced.

    Raises UsageError.
    """
    try:
        with directory_of(path) as (directory, name):
            _replace(directory, name, content)
    except OSError as error:
        message = f"cannot write {printable(str(path))}: {error.strerror}"
        raise UsageError(message, "name another file with --output") from None


def _replace(directory: int, name: str, content: str | bytes) -> None:
    temporary = f".writewise-{secrets.token_hex(8)}"
    try:
        with os.fdopen(create(directory, temporary), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise


def remove(path: Path) -> None:
    """Remove a file or symlink, if it exists. Raises UntrustedError and OSError."""
    with contextlib.suppress(FileNotFoundError), directory_of(path) as (directory, name):
        os.unlink(name, dir_fd=directory)


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents. Raises UsageError."""
    try:
        _make_missing(path)
    except OSError as error:
        raise _unusable(path, error) from None


def check_directory(path: Path) -> None:
    """Raise UsageError if `path`, or the nearest parent that exists, is not a directory."""
    place = path
    while not os.path.lexists(place) and place.parent != place:
        place = place.parent
    try:
        if not stat.S_ISDIR(place.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: OSError) -> UsageError:
    message = f"cannot use the directory {printable(str(path))}: {error.strerror}"
    return UsageError(message, "name another directory")


def _make_missing(path: Path) -> None:
    try:
        place = walk(str(path))
    except FileNotFoundError:
        if path.parent == path:  # the current directory is gone
            raise
        _make_missing(path.parent)
        with directory_of(path) as (directory, name):
            os.mkdir(name, 0o755, dir_fd=directory)
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    finally:
        os.close(place)
