"""Files that are written as root where others may write: never through a symlink of theirs.

The directory is opened once (`trust.walk`), and all that follows is relative to it: nobody can
put another in its place between a check and its use.
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
    """The directory that `path` is in, as a descriptor, and the last part of its name.

    Raises UntrustedError for a symlink on the way that others could have made, and OSError.
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
    """A new file (0644) to write to, in an open directory. Raises OSError, FileExistsError too."""
    return os.open(name, _NEW, _READABLE_BY_ALL, dir_fd=directory)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by a file with `text`, synced, mode 0644; a symlink is replaced itself.

    Raises UsageError.
    """
    try:
        with directory_of(path) as (directory, name):
            _replace(directory, name, text)
    except OSError as error:
        message = f"cannot write {printable(str(path))}: {error.strerror}"
        raise UsageError(message, "name another file with --output") from None


def _replace(directory: int, name: str, text: str) -> None:
    temporary = f".writewise-{secrets.token_hex(8)}"
    try:
        with os.fdopen(create(directory, temporary), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise


def remove(path: Path) -> None:
    """Remove a file or symlink, if it is there. Raises UntrustedError and OSError."""
    with contextlib.suppress(FileNotFoundError), directory_of(path) as (directory, name):
        os.unlink(name, dir_fd=directory)


def make_directories(path: Path) -> None:
    """Make a directory and those above it, where they are missing. Raises UsageError."""
    try:
        _make_missing(path)
    except OSError as error:
        raise UsageError(f"cannot use {printable(str(path))}: {error.strerror}") from None


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
