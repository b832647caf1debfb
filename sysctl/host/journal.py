# SPDX-License-Identifier: Apache-2.0
"""The journal: what was changed on the host, written and synced before each change.

Append-only, one JSON object per line. The first line has the format and its version. Then follow
`{"sequence": 3, "boot_id": …, "change": {…}}` before a change, `{"undone": 3, "boot_id": …}` after
its undo, and `{"kept": 3}` when all changes up to that one stay (`writewise apply`). A partial last
line is a change that was never begun. The file is removed when nothing is pending. Its mode is 0600
in a directory of root (0700).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.shared.errors import WritewiseError
from contracts.shared.trust import UntrustedError, path_of, walk
from contracts.shared.writing import make_directories
from sysctl.host.system import sync_directory

FORMAT = "writewise-journal"
FORMAT_VERSION = 1


class JournalError(WritewiseError):
    """The journal cannot be written or trusted, so nothing is changed."""


@dataclass(frozen=True)
class Entry:
    """A change that was begun and not undone. `changes.from_json` reads `change`.

    `is_kept`: the program that made it has completed, and the change stays.
    """

    sequence: int
    boot_id: str
    change: Mapping[str, Any]
    is_kept: bool = False

    @property
    def kind(self) -> object:
        """The kind of change, not yet validated."""
        return self.change.get("kind")


def private_directory(path: Path) -> Path:
    """Make or check a directory that only root can use (0700); return it with symlinks resolved.

    Raises JournalError, also if others could replace the directory.
    """
    try:
        make_directories(path.parent)
        parent = walk(str(path.parent), trust_all=False)
        try:
            place = Path(path_of(parent), path.name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path.name, 0o700, dir_fd=parent)
            _require_private(os.stat(path.name, dir_fd=parent, follow_symlinks=False), place)
        finally:
            os.close(parent)
    except UntrustedError as error:
        raise JournalError(f"the journal cannot be trusted: {error.message}", error.hint) from None
    except OSError as error:
        raise JournalError(f"cannot use {path}: {error.strerror}") from None
    return place


def _require_private(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise JournalError(
            f"{path} is not a directory, so its journal cannot be trusted",
            "find out who made it, and remove it",
        )
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        quoted = shlex.quote(str(path))
        raise JournalError(
            f"{path} could be changed by others, so its journal cannot be trusted",
            f"check its content, then run: chown root: {quoted} && chmod 0700 {quoted}",
        )


class Journal:
    """The journal in file `path`; `boot_id` marks what it records."""

    def __init__(self, path: Path, boot_id: str) -> None:
        self._path = path
        self._boot_id = boot_id

    def record(self, change: Mapping[str, Any]) -> int:
        """Write a change durably *before* it is made; return its sequence number."""
        sequence = 1 + max((line.get("sequence", 0) for line in self._lines()), default=0)
        self._append(
            {
                "version": FORMAT_VERSION,
                "sequence": sequence,
                "boot_id": self._boot_id,
                "change": dict(change),
            }
        )
        return sequence

    def mark_undone(self, sequence: int) -> None:
        """Record that a change was undone; with the last one the file is removed.

        That needs no space, so it works on a full disk too.
        """
        if [entry.sequence for entry in self.pending()] == [sequence]:
            self._path.unlink(missing_ok=True)
        else:
            self._append({"undone": sequence, "boot_id": self._boot_id})

    def mark_kept(self) -> None:
        """Record that every change so far is complete and stays."""
        pending = self.pending()
        if pending and not all(entry.is_kept for entry in pending):
            self._append({"kept": pending[0].sequence})

    def tidy(self) -> None:
        """Remove a journal without pending changes, which a crash before the first one left."""
        if not self.pending():
            self._path.unlink(missing_ok=True)

    def pending(self) -> list[Entry]:
        """Return changes that were begun and not undone, the newest first. Raises JournalError."""
        lines = self._lines()
        undone = {line["undone"] for line in lines if "undone" in line}
        kept = max((line["kept"] for line in lines if "kept" in line), default=0)
        entries = [
            Entry(line["sequence"], line["boot_id"], line["change"], line["sequence"] <= kept)
            for line in lines
            if "sequence" in line and line["sequence"] not in undone
        ]
        return entries[::-1]

    def undone_since_boot(self) -> list[Mapping[str, Any]]:
        """The changes that were taken back in this boot, while others are pending still."""
        lines = self._lines()
        undone = {
            line["undone"]
            for line in lines
            if "undone" in line and line.get("boot_id") == self._boot_id
        }
        return [line["change"] for line in lines if line.get("sequence") in undone]

    def _lines(self) -> list[dict[str, Any]]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
                complete, _, _torn = file.read().rpartition("\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise JournalError(f"cannot read the journal {self._path}: {error.strerror}") from None
        return [self._parse(number, line) for number, line in enumerate(complete.splitlines(), 1)]

    def _parse(self, number: int, text: str) -> dict[str, Any]:
        line: Any = None
        try:
            line = json.loads(text)
            known = _is_known(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            known = False
        if not known and isinstance(line, dict) and _is_of_another_version(line):
            raise JournalError(
                f"another version wrote the journal {self._path}: {line['version']!r:.20}",
                "run `writewise rollback` of the writewise that wrote it",
            )
        if not known:
            raise JournalError(
                f"the journal {self._path} cannot be read: line {number} is damaged",
                "restore by hand what its other lines list, then remove the file",
            )
        return dict(line)

    def _append(self, line: Mapping[str, Any]) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path, flags, 0o600)
            try:
                head = [] if _cut_torn_line(descriptor) else [_HEAD]
                text = "".join(json.dumps(each) + "\n" for each in [*head, line])
                _write_all(descriptor, text.encode("ascii"))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_directory(self._path.parent)
        except OSError as error:
            raise JournalError(
                f"cannot write the journal {self._path}: {error.strerror}",
                "nothing more was changed; free some space there and run `writewise rollback`",
            ) from None


_HEAD = {"format": FORMAT, "version": FORMAT_VERSION}


def _is_known(line: Mapping[str, Any]) -> bool:
    """Return whether this version can read a line, also from before there was a first line."""
    for mark in ("undone", "kept"):
        if mark in line:
            return isinstance(line[mark], int)
    return bool(line["version"] == FORMAT_VERSION) and (
        line.get("format") == FORMAT
        or (
            isinstance(line["sequence"], int)
            and isinstance(line["boot_id"], str)
            and isinstance(line["change"], dict)
        )
    )


def _is_of_another_version(line: Mapping[str, Any]) -> bool:
    return bool(line.get("version", FORMAT_VERSION) != FORMAT_VERSION)


def _cut_torn_line(descriptor: int) -> int:
    """Remove a partial last line that a crash left; return the number of bytes left."""
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    whole = content.rfind(b"\n") + 1
    if whole < size:
        os.ftruncate(descriptor, whole)
    return whole


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
