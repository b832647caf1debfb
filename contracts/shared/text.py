"""Text that others wrote, made safe to print: no terminal escapes, no endless lines."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

#: Control, invisible formatting and surrogate characters, line and paragraph separators: what
#: moves a cursor, hides or reorders text, or cannot be written to a terminal at all.
_UNPRINTABLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_QUOTED_CHARACTERS = 40


def is_unprintable(character: str) -> bool:
    """Whether a character must not reach a terminal as it is."""
    return unicodedata.category(character) in _UNPRINTABLE_CATEGORIES


def printable(text: str) -> str:
    r"""`text` with every unprintable character escaped: ESC becomes `\x1b`."""
    return "".join(repr(char)[1:-1] if is_unprintable(char) else char for char in text)


def quoted(text: str) -> str:
    """`text` in quotes for a message, control characters escaped, cut after 40 characters."""
    if len(text) > _QUOTED_CHARACTERS:
        return f"{text[:_QUOTED_CHARACTERS]!r}…"
    return repr(text)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`did you mean 'write'?` for the closest of the known words, or an empty string."""
    if len(word) > _QUOTED_CHARACTERS:
        return ""
    close = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else ""
