# SPDX-License-Identifier: Apache-2.0
"""Access to a JSON document that nobody has checked: every value has the type asked for.

The first value that has not is a UsageError with its path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from contracts.shared.errors import UsageError
from contracts.shared.text import printable

_HINT = "use a file that a --json of Writewise printed, complete and unchanged"
#: More than any time, size or count.
_LARGEST = 1e18
#: Less than any: it counts as 0, so that no ratio is infinite.
_SMALLEST = 1e-18
_MAX_TEXT = 4096
_MAX_ITEMS = 2000


@dataclass(frozen=True)
class CheckedObject:
    """An object of the document, and where it is, for messages."""

    data: Mapping[str, Any]
    file: str
    path: str = ""

    def damaged(self, name: str, what: str) -> UsageError:
        """Return the error for a field."""
        place = printable(".".join(filter(None, (self.path, name))))[:200]
        return UsageError(f"{self.file} is damaged: {place} is not {what}", _HINT)

    def number_or_none(self, name: str) -> float | None:
        """Return a finite number from 0; None for null or a missing field."""
        value = self.data.get(name)
        if value is None:
            return None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= _LARGEST or not math.isfinite(value):
            raise self.damaged(name, "a number from 0")
        return float(value) if value >= _SMALLEST else 0.0

    def number(self, name: str) -> float:
        """Return the same; the field is required."""
        value = self.number_or_none(name)
        if value is None:
            raise self.damaged(name, "a number from 0")
        return value

    def whole(self, name: str) -> int:
        """Return a whole number; 0 if the field is missing."""
        value = self.number_or_none(name) or 0.0
        if value != int(value):
            raise self.damaged(name, "a whole number")
        return int(value)

    def text_or_none(self, name: str) -> str | None:
        """Return a text; None for null or a missing field."""
        value = self.data.get(name)
        if value is not None and not (isinstance(value, str) and len(value) <= _MAX_TEXT):
            raise self.damaged(name, f"a text of at most {_MAX_TEXT} characters")
        return value or None

    def text(self, name: str) -> str:
        """Return the same; the field is required."""
        value = self.text_or_none(name)
        if value is None:
            raise self.damaged(name, "a text")
        return value

    def child_or_none(self, name: str) -> CheckedObject | None:
        """Return an object; None for null or a missing field."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.damaged(name, "an object")
        return CheckedObject(value, self.file, ".".join(filter(None, (self.path, name))))

    def child(self, name: str) -> CheckedObject:
        """Return an object; an empty one for null or a missing field."""
        return self.child_or_none(name) or CheckedObject({}, self.file, name)

    def children(self, name: str) -> Iterator[CheckedObject]:
        """Yield the objects of a list; none for null or a missing field."""
        value = self.data.get(name)
        if value is None:
            return
        if not isinstance(value, list) or len(value) > _MAX_ITEMS:
            raise self.damaged(name, f"a list of at most {_MAX_ITEMS} objects")
        for at, item in enumerate(value):
            place = f"{name}[{at}]"
            if not isinstance(item, dict):
                raise self.damaged(place, "an object")
            yield CheckedObject(item, self.file, ".".join(filter(None, (self.path, place))))

    def values(self, name: str) -> dict[str, str | int | float]:
        """Return the texts and numbers of an object by name; other values are left out."""
        found: dict[str, str | int | float] = {}
        for key, value in list(self.child(name).data.items())[:_MAX_ITEMS]:
            if isinstance(value, (str, int, float)) and len(str(key)) <= _MAX_TEXT:
                found[str(key)] = _described(value)
        return found


def _described(value: str | float) -> str | int | float:
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if abs(value) <= _LARGEST else str(value)[:40]
