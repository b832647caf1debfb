# SPDX-License-Identifier: Apache-2.0
"""The name of a class of nodes, as files and options have it; `ClassKey` of evidence makes it."""

from __future__ import annotations

import re

#: Instead of a name: nodes of every class.
ANY_CLASS = "any"
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
#: A class ends with its hash; a study of only some of its nodes may add a name for their kind.
_OF_KIND = re.compile(r"(.*_[0-9a-f]{16})\.[A-Za-z0-9._-]+")


def is_class_text(text: object) -> bool:
    """Return whether a text can be that of a class: part of a path and of an object's key."""
    return isinstance(text, str) and _CLASS.fullmatch(text) is not None


def recorded_class(text: str) -> str:
    """Return the class as nodes record it: without a kind, which they do not know."""
    found = _OF_KIND.fullmatch(text)
    return found[1] if found else text
