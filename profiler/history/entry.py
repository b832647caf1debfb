# SPDX-License-Identifier: Apache-2.0
"""One entry of the history: a command that measured or changed something, and its outcome."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from contracts.shared.text import printable

VERSION = 1
#: Characters of a text, and of all words or sentences of an entry together.
_MAX_TEXT, _MAX_TEXTS = 400, 2000
#: More than any command takes: 30 years.
_LONGEST_S = 1e9


@dataclass(frozen=True)
class HistoryEntry:
    """A command that has ended.

    `at` is when it began (ISO 8601, with the offset from UTC), `user` who called it. `arguments`
    are its words without secrets. `outcome` has a sentence for each thing that it measured or
    changed; `error` is why it failed, None if it did not.
    """

    at: str
    elapsed_s: float
    command: str
    user: str
    arguments: tuple[str, ...]
    outcome: tuple[str, ...]
    exit_code: int
    error: str | None = None

    @property
    def began(self) -> datetime:
        """The time in `at`."""
        return datetime.fromisoformat(self.at)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return asdict(self)

    def to_line(self) -> bytes:
        """Return the entry as one line of limited length; its texts are printable."""
        fields = {
            **self.to_json(),
            "user": _cut(self.user),
            "arguments": _bounded(self.arguments),
            "outcome": _bounded(self.outcome),
            "error": None if self.error is None else _cut(self.error),
        }
        document = {"version": VERSION, **fields}
        return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def entry_of_line(line: bytes) -> HistoryEntry | None:
    """Return the entry; None for a line that is incomplete, damaged or of another version."""
    try:
        data = json.loads(line.decode())
        if data["version"] != VERSION:
            return None
        entry = HistoryEntry(
            at=_text(data["at"]),
            elapsed_s=float(data["elapsed_s"]),
            command=_text(data["command"]),
            user=_text(data["user"]),
            arguments=tuple(map(_text, data["arguments"])),
            outcome=tuple(map(_text, data["outcome"])),
            exit_code=int(data["exit_code"]),
            error=None if data["error"] is None else _text(data["error"]),
        )
        entry.began.astimezone()  # a date that the local time can have
        is_right = entry.began.tzinfo is not None and 0 <= entry.elapsed_s < _LONGEST_S
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        return None
    return entry if is_right else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _MAX_TEXT else f"{shown[:_MAX_TEXT]}…"


def _bounded(texts: Iterable[str]) -> list[str]:
    """Return the first texts that fit; `…` stands for the rest."""
    kept: list[str] = []
    left = _MAX_TEXTS
    for text in map(_cut, texts):
        left -= len(text) + 1
        if left < 0:
            return [*kept, "…"]
        kept.append(text)
    return kept
