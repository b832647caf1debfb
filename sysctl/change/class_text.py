# SPDX-License-Identifier: Apache-2.0
"""The name of a class of nodes, as files and options have it; `ClassKey` of evidence makes it."""

from __future__ import annotations

import re

#: Instead of a name: nodes of every class.
ANY_CLASS = "any"
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_class_text(text: object) -> bool:
    """Return whether a text can be that of a class: part of a path and of an object's key."""
    return isinstance(text, str) and _CLASS.fullmatch(text) is not None
