"""Reads a text file that a person named, whatever it turns out to be.

The file is looked at before it is opened (a FIFO would block, a watchdog device would be armed)
and never read beyond a limit. One that decides what is changed on the host must be `trusted`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.trust import walk

_LOOK = os.O_PATH | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True)
class FileKind:
    """What a file should be (`contract`, for messages), how large at most, and what else to do."""

    noun: str
    max_bytes: int
    hint: str

    def read_text(self, path: str, *, trusted: bool = False) -> str:
        """The file's text, without a byte order mark. Raises UsageError with what the file is.

        With `trusted` also UntrustedError, for one that others could have written or replaced.
        """
        content = self._read_bytes(path, trusted)
        name = printable(path)
        if len(content) > self.max_bytes:
            limit = f"{self.max_bytes >> 20} MiB"
            raise UsageError(f"{name} is larger than {limit}, so it is no {self.noun}", self.hint)
        if not content.strip():
            raise UsageError(f"{name} is empty", self.hint)
        if b"\0" in content:
            raise UsageError(f"{name} is binary, not a {self.noun}'s text", self.hint)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            problem = f"byte {content[error.start]:#04x} at offset {error.start}"
            raise UsageError(f"{name} is not UTF-8 text: {problem}", self.hint) from None

    def _read_bytes(self, path: str, trusted: bool) -> bytes:
        """At most one byte more than the file may have. Raises UsageError."""
        try:
            place = walk(path, believe_all=False) if trusted else os.open(path, _LOOK)
            try:
                self._require_regular(os.fstat(place), printable(path))
                # the very file that was looked at, whatever its name leads to by now
                with open(f"/proc/self/fd/{place}", "rb") as file:  # noqa: PTH123
                    return file.read(self.max_bytes + 1)
            finally:
                os.close(place)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            message = f"cannot read the {self.noun} {printable(path)}: {reason}"
            raise UsageError(message, self.hint) from None

    def _require_regular(self, status: os.stat_result, name: str) -> None:
        for is_kind, kind in _KINDS:
            if is_kind(status.st_mode):
                raise UsageError(f"{name} is {kind}, not a {self.noun} file", self.hint)
