# SPDX-License-Identifier: Apache-2.0
"""The file of the history: a line for each entry, bounded, for several writers at once.

It is a record only: what can be restored is in the journals. A writer holds the file's lock while
it appends one line with one write. A line that a kill or a full disk has cut is left alone: the
next entry begins a new line, and readers skip and count it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from contracts.shared.writing import make_directories
from profiler.history.entry import HistoryEntry, entry_of_line
from sysctl.host.host import state_directory
from sysctl.host.journal import private_directory

NAME = "history.jsonl"
#: The bounds of the file. When one is exceeded, the newest three quarters of both remain.
MAX_ENTRIES, MAX_BYTES = 1000, 2**20
_KEPT_ENTRIES, _KEPT_BYTES = MAX_ENTRIES * 3 // 4, MAX_BYTES * 3 // 4
_MODE = 0o600
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
#: How long a command waits for another that writes an entry.
PATIENCE_S = 1.0
_POLL_S = 0.02


class HistoryError(WritewiseError):
    """The history cannot be read or written."""


class Kept(NamedTuple):
    """The readable entries, the oldest first, and the number of other lines."""

    entries: tuple[HistoryEntry, ...]
    skipped: int


def history_path(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file of this user: root's is in the state directory.

    Another user's is in the user's own state directory (XDG_STATE_HOME); None without a home.
    Raises HostError.
    """
    if os.geteuid() == 0 or environment.get("WRITEWISE_STATE_DIRECTORY"):
        return state_directory() / NAME
    state = environment.get("XDG_STATE_HOME") or ""
    if state.startswith("/"):  # other values are to be ignored: XDG Base Directory Specification
        return Path(state) / "writewise" / NAME
    home = Path(environment.get("HOME") or "/nonexistent")
    return home / ".local/state/writewise" / NAME if home.is_dir() else None


def add_entry(path: Path, entry: HistoryEntry) -> None:
    """Append an entry, and drop the oldest ones beyond the bounds. Raises WritewiseError."""
    if os.geteuid() == 0:
        directory = private_directory(path.parent)
    else:
        directory = path.parent
        make_directories(directory.parent)
        with contextlib.suppress(FileExistsError), _errors(directory):
            directory.mkdir(0o700)
    file = directory / path.name
    with _errors(file), _locked(file) as descriptor:
        _append(descriptor, file, entry.to_line())


def read_entries(path: Path) -> Kept:
    """Return the entries; none if there is no file. Raises HistoryError."""
    with _errors(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return Kept((), 0)
        try:
            _require_regular(descriptor)
            with contextlib.suppress(TimeoutError):  # a writer that hangs: read what is there
                _lock(descriptor, fcntl.LOCK_SH)
            lines = _lines(_content(descriptor))
        finally:
            os.close(descriptor)
    found = [entry_of_line(line) for line in lines]
    entries = tuple(entry for entry in found if entry is not None)
    return Kept(entries, len(found) - len(entries))


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise HistoryError(f"cannot use {printable(str(path))}: {reason}") from None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Yield the file's descriptor with its lock, or that of the file that has replaced it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS, _MODE)
        try:
            _require_regular(descriptor)
            _lock(descriptor, fcntl.LOCK_EX)
            if _is_named(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _require_regular(descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def _lock(descriptor: int, kind: int) -> None:
    """Take the lock. Raises TimeoutError."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, "another program holds its lock") from None
        time.sleep(_POLL_S)


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _content(descriptor: int) -> bytes:
    """Return the content of the file, or its end if the file is larger than it should be."""
    size_bytes = os.fstat(descriptor).st_size
    return os.pread(descriptor, 2 * MAX_BYTES, max(0, size_bytes - 2 * MAX_BYTES))


def _lines(content: bytes) -> list[bytes]:
    return [line for line in content.split(b"\n") if line]


def _append(descriptor: int, file: Path, line: bytes) -> None:
    size_bytes = os.fstat(descriptor).st_size
    content = _content(descriptor)
    if size_bytes + len(line) > MAX_BYTES or content.count(b"\n") >= MAX_ENTRIES:
        _replace(file, [*_lines(content), line.rstrip(b"\n")])
        return
    is_cut = bool(content) and not content.endswith(b"\n")
    _write(descriptor, b"\n" * is_cut + line, size_bytes)


def _replace(file: Path, lines: list[bytes]) -> None:
    """Replace the file by the newest lines: a kill leaves the old one or the new one."""
    kept: list[bytes] = []
    size_bytes = 0
    for line in reversed(lines[-_KEPT_ENTRIES:]):
        size_bytes += len(line) + 1
        if size_bytes > _KEPT_BYTES:
            break
        kept.append(line)
    new = file.with_name(f"{file.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, _MODE)
    try:
        _write(descriptor, b"".join(line + b"\n" for line in reversed(kept)), 0)
    finally:
        os.close(descriptor)
    new.replace(file)


def _write(descriptor: int, data: bytes, size_bytes: int) -> None:
    """Write at the end of a file of this size, all or nothing. Raises OSError."""
    written = os.write(descriptor, data)
    if written < len(data):  # the disk is full
        os.ftruncate(descriptor, size_bytes)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
