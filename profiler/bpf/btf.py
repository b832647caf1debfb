# SPDX-License-Identifier: Apache-2.0
"""Offsets of members in the running kernel's structures, read from its BTF.

The kernel describes its types in `/sys/kernel/btf/vmlinux` (CONFIG_DEBUG_INFO_BTF), so no header
package is needed that might not match. The format is that of `Documentation/bpf/btf.rst`: a header,
a section of types ordered by id (from 1), each of three words plus those of its kind, and a section
of NUL-terminated names.
"""

from __future__ import annotations

import functools
import platform
import re
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

from contracts.shared.errors import RequirementError

VMLINUX = Path("/sys/kernel/btf/vmlinux")

_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_STRUCT, _UNION, _ENUM, _TYPEDEF, _VOLATILE, _CONST, _FUNCTION = 4, 5, 6, 8, 9, 10, 12
_NOUNS = {_STRUCT: "structure", _ENUM: "enumeration"}
_QUALIFIERS = (_TYPEDEF, _VOLATILE, _CONST)
_TYPE_WORDS = 3
#: Words after the first three, by kind: a fixed number, and a number per member of the type.
_FIXED_WORDS = {1: 1, 3: 3, 14: 1, 17: 1}
_MEMBER_WORDS = {_STRUCT: 3, _UNION: 3, _ENUM: 2, 13: 2, 15: 3, 19: 3}
_KINDS = 32
_HINT = "use a kernel with CONFIG_DEBUG_INFO_BTF, such as any current kernel on EC2"
#: The oldest kernel on which the probes were tested. It only selects the hint: what a kernel lacks
#: is found in its BTF.
OLDEST_KERNEL = "Linux 6.1"


def kernel_hint(release: str = "") -> str:
    """Return what to do if the kernel `release` (by default the running one) lacks something."""
    release = release or platform.release()
    if not _is_too_old(release):
        return (
            f"Linux {release} is newer than {OLDEST_KERNEL}, so it may have renamed something: "
            "install the newest Writewise, or boot a kernel of docs/development/kernels.md"
        )
    return f"boot {OLDEST_KERNEL} or later, which Writewise's probes need"


def _is_too_old(release: str) -> bool:
    """Return whether a release such as `5.10.0-46-amd64` is older than `OLDEST_KERNEL`."""
    oldest, found = (re.search(r"(\d+)\.(\d+)", text) for text in (OLDEST_KERNEL, release))
    return bool(oldest and found and (*map(int, found.groups()),) < (*map(int, oldest.groups()),))


class Btf:
    """The structures and enumerations of a BTF image. Raises RequirementError if it is invalid."""

    def __init__(self, image: bytes) -> None:
        try:
            magic, _, _, header_bytes, type_start, type_bytes, name_start, name_bytes = (
                _HEADER.unpack_from(image)
            )
        except struct.error:
            raise RequirementError("the kernel's BTF is truncated", _HINT) from None
        if magic != _MAGIC:
            raise RequirementError("the kernel's BTF has an unknown byte order or format", _HINT)
        types = image[header_bytes + type_start :][:type_bytes]
        names = image[header_bytes + name_start :][:name_bytes]
        if len(types) < type_bytes or len(names) < name_bytes:
            raise RequirementError("the kernel's BTF is truncated", _HINT)
        self._words = memoryview(types).cast("I")
        self._names = names
        self._positions = _type_positions(self._words)
        self._found: dict[tuple[int, str], int] = {}

    @classmethod
    def of_kernel(cls, path: Path = VMLINUX) -> Btf:
        """Return the running kernel's BTF. Raises RequirementError if it cannot be read."""
        try:
            return cls(path.read_bytes())
        except OSError as error:
            message = f"the kernel's type information {path} cannot be read: {error.strerror}"
            raise RequirementError(message, _HINT) from None

    def offset_bytes(self, structure: str, *members: str) -> int:
        """Return the offset in bytes of a member, such as `("file", "f_path", "dentry")`.

        As in C, a member of an anonymous structure or union belongs to the outer one. The offset of
        a bit-field is that of its first bit's byte. Raises RequirementError for an unknown
        structure or member.
        """
        return self.offset_bits(structure, *members) // 8

    def offset_bits(self, structure: str, *members: str) -> int:
        """Return the offset in bits, as needed for bit-fields."""
        position = self._definition(_STRUCT, structure)
        total_bits = 0
        for depth, member in enumerate(members):
            found = self._member(position, member)
            if found is None:
                path = ".".join((structure, *members[: depth + 1]))
                raise RequirementError(f"this kernel has no member {path}", kernel_hint())
            bits, type_id = found
            total_bits += bits
            position = self._resolved(type_id)
        return total_bits

    def enumerators(self, enumeration: str) -> dict[str, int]:
        """Return the constants of `enum enumeration` with their values, unsigned 32 bits.

        Raises RequirementError for an unknown enumeration.
        """
        position = self._definition(_ENUM, enumeration)
        start = position + _TYPE_WORDS
        end = start + 2 * (self._words[position + 1] & 0xFFFF)
        return {self._name(self._words[at]): self._words[at + 1] for at in range(start, end, 2)}

    def functions(self, names: Collection[str]) -> dict[str, int]:
        """Return the ids of those of the functions that the kernel has."""
        starts = {self._names.find(b"\0" + name.encode() + b"\0") + 1: name for name in names}
        starts.pop(0, None)  # not found
        words = self._words
        return {
            starts[words[position]]: number
            for number, position in enumerate(self._positions)
            if words[position] in starts and words[position + 1] >> 24 & 31 == _FUNCTION
        }

    def structure_id(self, name: str) -> int:
        """Return the id of `struct name`. Raises RequirementError for an unknown one."""
        return self._positions.index(self._definition(_STRUCT, name))

    def has_structure(self, name: str) -> bool:
        """Return whether the kernel has `struct name`."""
        try:
            self._definition(_STRUCT, name)
        except RequirementError:
            return False
        return True

    def _definition(self, kind: int, name: str) -> int:
        """Return the position of the definition of `struct name` or `enum name`."""
        if (kind, name) not in self._found:
            self._found[kind, name] = self._sought(kind, name)
        return self._found[kind, name]

    def _sought(self, kind: int, name: str) -> int:
        name_offset = self._names.find(b"\0" + name.encode() + b"\0") + 1
        words = self._words
        if name_offset:
            for position in self._positions:
                if words[position] == name_offset and words[position + 1] >> 24 & 31 == kind:
                    return position
        raise RequirementError(f"this kernel's BTF has no {_NOUNS[kind]} {name}", kernel_hint())

    def _member(self, position: int, name: str) -> tuple[int, int] | None:
        """Return the bit offset and type id of a member, also of one in an anonymous member."""
        for member_name, bits, type_id in self._members(position):
            if member_name == name:
                return bits, type_id
            if not member_name:
                inner = self._member(self._resolved(type_id), name)
                if inner is not None:
                    return bits + inner[0], inner[1]
        return None

    def _members(self, position: int) -> Iterator[tuple[str, int, int]]:
        """Yield name, bit offset and type id of each member of a structure or union."""
        info = self._words[position + 1]
        if info >> 24 & 31 not in (_STRUCT, _UNION):
            return
        offset_mask = 0xFFFFFF if info >> 31 else 0xFFFFFFFF  # kind_flag: top byte is a size
        start = position + _TYPE_WORDS
        for at in range(start, start + 3 * (info & 0xFFFF), 3):
            name_offset, type_id, offset = self._words[at : at + 3]
            yield self._name(name_offset), offset & offset_mask, type_id

    def _resolved(self, type_id: int) -> int:
        """Return the position of a type without its typedefs and qualifiers."""
        position = self._positions[type_id]
        while self._words[position + 1] >> 24 & 31 in _QUALIFIERS:
            position = self._positions[self._words[position + 2]]
        return position

    def _name(self, offset: int) -> str:
        return self._names[offset : self._names.index(b"\0", offset)].decode()


@functools.lru_cache(maxsize=1)
def parsed_btf(path: Path) -> Btf:
    """Return `Btf.of_kernel`, cached until `parsed_btf.cache_clear()`; it takes 10 MiB."""
    return Btf.of_kernel(path)


def _type_positions(words: memoryview[int]) -> list[int]:
    """Return the first word of each type by id; id 0 is `void`, which has no words."""
    fixed = [_TYPE_WORDS + _FIXED_WORDS.get(kind, 0) for kind in range(_KINDS)]
    per_member = [_MEMBER_WORDS.get(kind, 0) for kind in range(_KINDS)]
    positions = [0]
    position, end = 0, len(words)
    while position < end:
        positions.append(position)
        info = words[position + 1]
        kind = info >> 24 & 31
        position += fixed[kind] + (info & 0xFFFF) * per_member[kind]
    return positions
