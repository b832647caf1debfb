# SPDX-License-Identifier: Apache-2.0
"""Making text from others safe to print: no terminal escapes, no endless lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

#: Control, invisible formatting and surrogate characters, line and paragraph separators: they
#: move the cursor, hide or reorder text, or cannot be written to a terminal.
_UNPRINTABLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_QUOTED_CHARACTERS = 40
#: From 0 to 1. With 0.6 the option `--minutes` is like `--bdi-min-bytes`; many words are short.
_SIMILAR, _SIMILAR_OPTION = 0.6, 0.75


def is_unprintable(character: str) -> bool:
    """Return whether a character must be escaped before it is printed."""
    return unicodedata.category(character) in _UNPRINTABLE_CATEGORIES


def printable(text: str) -> str:
    r"""`text` with every unprintable character escaped: ESC becomes `\x1b`."""
    return "".join(repr(char)[1:-1] if is_unprintable(char) else char for char in text)


def quoted(text: str) -> str:
    """`text` in quotes for a message, with escapes, truncated after 40 characters."""
    if len(text) > _QUOTED_CHARACTERS:
        return f"{text[:_QUOTED_CHARACTERS]!r}…"
    return repr(text)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`did you mean 'write'?` for the closest of the known words, or an empty string."""
    import difflib  # late: most commands need no suggestion

    if len(word) > _QUOTED_CHARACTERS:
        return ""
    close = difflib.get_close_matches(
        word.lower(),
        list(known),
        n=1,
        cutoff=_SIMILAR_OPTION if word.startswith("--") else _SIMILAR,
    )
    return f"did you mean {close[0]!r}?" if close else ""
