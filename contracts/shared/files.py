# SPDX-License-Identifier: Apache-2.0
"""Safe reading of a text file that a user named.

The file's type is checked before it is opened (a FIFO would block, a watchdog device would be
armed), and it is never read beyond a limit. A file that decides what is changed on the host must be
`trusted`.
"""

from __future__ import annotations

import codecs
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
    """What a file should be (`contract`, for messages), its maximum size, and a hint."""

    noun: str
    max_bytes: int
    hint: str

    def read_text(self, path: str, *, trusted: bool = False) -> str:
        """Return the file's text without a byte order mark. Raises UsageError.

        With `trusted`, also raises UntrustedError if others could have written or replaced it.
        """
        content = self._read_bytes(path, trusted)
        name = printable(path)
        if len(content) > self.max_bytes:
            limit = f"{self.max_bytes >> 20} MiB"
            raise UsageError(
                f"{name} is larger than {limit}, the limit for a {self.noun} file", self.hint
            )
        if not content.removeprefix(codecs.BOM_UTF8).strip():
            raise UsageError(f"{name} is empty", self.hint)
        if b"\0" in content:
            raise UsageError(f"{name} is a binary file, not a {self.noun} file", self.hint)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            problem = f"byte {content[error.start]:#04x} at offset {error.start}"
            raise UsageError(f"{name} is not UTF-8 text: {problem}", self.hint) from None

    def _read_bytes(self, path: str, trusted: bool) -> bytes:
        """Read at most one byte more than the maximum size. Raises UsageError."""
        try:
            place = walk(path, trust_all=False) if trusted else os.open(path, _LOOK)
            try:
                self._require_regular(os.fstat(place), printable(path))
                # the same file that was checked, even if its name now leads to another
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
