# SPDX-License-Identifier: Apache-2.0
"""BTF images made by hand, with every kind of type, every defect and any kernel."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

INT, POINTER, ARRAY, STRUCT, UNION, ENUM = 1, 2, 3, 4, 5, 6
FORWARD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNCTION, PROTOTYPE = 7, 8, 9, 10, 11, 12, 13
VARIABLE, SECTION, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = 14, 15, 16, 17, 18, 19
#: Kind, number of members → words that follow the first three (Documentation/bpf/btf.rst).
EVERY_OTHER_KIND = (
    *((INT, 0, 1), (POINTER, 0, 0), (ARRAY, 0, 3), (ENUM, 3, 6), (FORWARD, 0, 0)),
    *((TYPEDEF, 0, 0), (VOLATILE, 0, 0), (CONST, 0, 0), (RESTRICT, 0, 0), (FUNCTION, 0, 0)),
    *((PROTOTYPE, 2, 4), (VARIABLE, 0, 1), (SECTION, 2, 6), (FLOAT, 0, 0)),
    *((DECL_TAG, 0, 1), (TYPE_TAG, 0, 0), (ENUM64, 2, 6)),
)


class Image:
    """Build a BTF image; each method returns the id of the new type."""

    def __init__(self) -> None:
        self.names, self.types, self.count = b"\0", b"", 0

    def name(self, text: str) -> int:
        if not text:
            return 0
        known = self.names.find(b"\0" + text.encode() + b"\0") + 1
        if known:
            return known
        offset = len(self.names)
        self.names += text.encode() + b"\0"
        return offset

    def add(
        self, kind: int, name: str = "", refers_to: int = 0, members: int = 0, words: tuple = ()
    ) -> int:
        self.types += struct.pack("<III", self.name(name), kind << 24 | members, refers_to)
        self.types += struct.pack(f"<{len(words)}I", *words)
        self.count += 1
        return self.count

    def structure(self, name: str, *members: tuple[str, int, int], kind: int = STRUCT) -> int:
        """Add a structure; members are (name, type id, offset in bytes)."""
        words = [word for member in members for word in self._member(*member)]
        return self.add(kind, name, 64, len(members), tuple(words))

    def _member(self, name: str, type_id: int, offset_bytes: int) -> tuple[int, int, int]:
        return self.name(name), type_id, offset_bytes * 8

    def bytes(self) -> bytes:
        lengths = (0, len(self.types), len(self.types), len(self.names))
        return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, *lengths) + self.types + self.names


def image_of(paths: Iterable[tuple[str, ...]]) -> bytes:
    """Return a kernel with only these members, such as `("path", "dentry")`."""
    image = Image()
    tree: dict[str, Any] = {}
    for path in paths:
        place = tree
        for name in path:
            place = place.setdefault(name, {})
    for name, members in tree.items():
        _structure(image, name, members)
    return image.bytes()


def _structure(image: Image, name: str, members: dict[str, dict]) -> int:
    types = {member: _structure(image, "", inner) for member, inner in members.items()}
    return image.structure(name, *((member, types[member], 8) for member in members))
