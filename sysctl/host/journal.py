"""The journal: what was changed on the host, written and synced before each change.

One JSON object a line, append-only. The first names the format and its version; then comes
`{"sequence": 3, "boot_id": …, "change": {…}}` before a change, `{"undone": 3, "boot_id": …}` after
it was taken back, and `{"kept": 3}` once all changes up to that one are to stay (`writewise
apply`). A torn last line is a change that was never begun. The file goes when nothing is pending.
Mode 0600 in a directory of root's own (0700).
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
    """The journal cannot be written or trusted; no change is made without it."""


@dataclass(frozen=True)
class Entry:
    """A change that was begun and not taken back. `change` is what `changes.from_json` reads.

    `is_kept` tells that the program which made it came to its end, and meant it to stay.
    """

    sequence: int
    boot_id: str
    change: Mapping[str, Any]
    is_kept: bool = False

    @property
    def kind(self) -> object:
        """The kind of change, before it is looked into."""
        return self.change.get("kind")


def private_directory(path: Path) -> Path:
    """Make `path` root's own (0700), or check that it is; returns it without symlinks.

    Raises JournalError, also where others could put another directory in its place.
    """
    try:
        make_directories(path.parent)
        parent = walk(str(path.parent), believe_all=False)
        try:
            place = Path(path_of(parent), path.name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path.name, 0o700, dir_fd=parent)
            _require_private(os.stat(path.name, dir_fd=parent, follow_symlinks=False), place)
        finally:
            os.close(parent)
    except UntrustedError as error:
        raise JournalError(
            f"no journal there can be trusted: {error.message}", error.hint
        ) from None
    except OSError as error:
        raise JournalError(f"cannot use {path}: {error.strerror}") from None
    return place


def _require_private(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise JournalError(
            f"{path} is no directory, so no journal there can be trusted",
            "look who made it, and remove it",
        )
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        quoted = shlex.quote(str(path))
        raise JournalError(
            f"{path} could be changed by others, so its journal cannot be trusted",
            f"look into it, then: chown root: {quoted} && chmod 0700 {quoted}",
        )


class Journal:
    """The journal in file `path`; `boot_id` marks what it records."""

    def __init__(self, path: Path, boot_id: str) -> None:
        self._path = path
        self._boot_id = boot_id

    def record(self, change: Mapping[str, Any]) -> int:
        """Write a change down durably *before* it is made; returns its sequence number."""
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
        """Write down that a change was taken back; the file goes with the last one.

        The last one takes no space: a full disk cannot keep a journal alive.
        """
        if [entry.sequence for entry in self.pending()] == [sequence]:
            self._path.unlink(missing_ok=True)
        else:
            self._append({"undone": sequence, "boot_id": self._boot_id})

    def mark_kept(self) -> None:
        """Write down that every change so far is complete and is to stay."""
        pending = self.pending()
        if pending and not all(entry.is_kept for entry in pending):
            self._append({"kept": pending[0].sequence})

    def tidy(self) -> None:
        """Remove a file in which nothing is pending: a crash left it before the first change."""
        if not self.pending():
            self._path.unlink(missing_ok=True)

    def pending(self) -> list[Entry]:
        """Changes that were begun and not taken back, the newest first. Raises JournalError."""
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
                f"the journal {self._path} is of another version: {line['version']!r:.20}",
                "run `writewise rollback` of the writewise that wrote it",
            )
        if not known:
            raise JournalError(
                f"the journal {self._path} cannot be read: line {number} is damaged",
                "restore by hand what its other lines name, then remove the file",
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
    """Whether a line is one that this version writes (or wrote, before it had a first line)."""
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
    """Drop what a crash left of a line that was never finished, so that the next one is whole.

    Returns how many bytes are left.
    """
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    whole = content.rfind(b"\n") + 1
    if whole < size:
        os.ftruncate(descriptor, whole)
    return whole


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
