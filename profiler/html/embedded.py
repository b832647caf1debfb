# SPDX-License-Identifier: Apache-2.0
"""The JSON document inside a page: bounded in size, and unable to end its element."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: A larger document loses entries of its longest lists.
MOST_BYTES = 160_000
#: Shorter lists stay whole.
_SHORTEST = 16
#: What HTML could take for something else; JSON itself is ASCII here.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def embedded_json(document: Mapping[str, Any]) -> str:
    """Return the document as JSON without `<`, `>` and `&`; long lists lose every second entry.

    All lists of the longest length are halved together, until the text is short enough, because the
    columns of a timeline belong together. The key `thinned` then has the length that they had.
    """
    shown: Any = document
    longest = 0
    while len(text := _encoded(shown)) > MOST_BYTES:
        length = max(_lengths(shown), default=0)
        if length < _SHORTEST:
            break
        longest = longest or length
        times = 2 if len(text) > 4 * MOST_BYTES else 1  # encoding takes longer than halving
        for _ in range(times):
            shown = {**_halved(shown, max(_lengths(shown))), "thinned": {"entries": longest}}
    return text


def _encoded(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _lengths(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _lengths(each)
    elif isinstance(value, (list, tuple)):
        yield len(value)
        if _has_parts(value):
            for each in value:
                yield from _lengths(each)


def _halved(value: Any, length: int) -> Any:
    """Return it with every second entry of the lists of that length, and their last one."""
    if isinstance(value, dict):
        return {key: _halved(each, length) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        kept = [*value[:-1:2], value[-1]] if len(value) == length else list(value)
        return [_halved(each, length) for each in kept] if _has_parts(value) else kept
    return value


def _has_parts(values: Sequence[Any]) -> bool:
    """Return whether the entries have lists themselves; a document's are all of one kind."""
    return bool(values) and isinstance(values[-1], (dict, list, tuple))
