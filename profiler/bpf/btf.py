"""Where members lie in the running kernel's structures, read from its own BTF.

The kernel describes its types at `/sys/kernel/btf/vmlinux` (CONFIG_DEBUG_INFO_BTF), so no header
package is needed and none can fail to match. The format is that of
`Documentation/bpf/btf.rst`: a header, a section of types in the order of their ids (the first is
1), each of three words and what its kind adds, and a section of NUL-terminated names.
"""

from __future__ import annotations

import functools
import platform
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from contracts.shared.errors import RequirementError

VMLINUX = Path("/sys/kernel/btf/vmlinux")

_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_STRUCT, _UNION, _ENUM, _TYPEDEF, _VOLATILE, _CONST = 4, 5, 6, 8, 9, 10
_NOUNS = {_STRUCT: "structure", _ENUM: "enumeration"}
_QUALIFIERS = (_TYPEDEF, _VOLATILE, _CONST)
_TYPE_WORDS = 3
#: Words after the first three, by kind: fixed ones, and as many for each of the type's members.
_FIXED_WORDS = {1: 1, 3: 3, 14: 1, 17: 1}
_MEMBER_WORDS = {_STRUCT: 3, _UNION: 3, _ENUM: 2, 13: 2, 15: 3, 19: 3}
_KINDS = 32
_HINT = "Writewise needs a kernel built with CONFIG_DEBUG_INFO_BTF, as every current one of EC2 is"
#: The oldest kernel on which the probes were seen to work. What a kernel lacks is found in its BTF;
#: the version decides on the hint alone.
OLDEST_KERNEL = "Linux 6.1"


def kernel_hint(release: str = "") -> str:
    """What to do where the kernel (`release`; else the running one) lacks what the probes need."""
    release = release or platform.release()
    if not _is_too_old(release):
        return (
            f"Linux {release} is not older than {OLDEST_KERNEL}, so something was renamed in it: "
            "install the newest Writewise, or boot a kernel of docs/kernels.md"
        )
    return f"Writewise's probes need {OLDEST_KERNEL} or later: boot such a kernel"


def _is_too_old(release: str) -> bool:
    """Whether a release such as `5.10.0-46-amd64` comes before `OLDEST_KERNEL`."""
    oldest, found = (re.search(r"(\d+)\.(\d+)", text) for text in (OLDEST_KERNEL, release))
    return bool(oldest and found and (*map(int, found.groups()),) < (*map(int, oldest.groups()),))


class Btf:
    """The structures and enumerations of a BTF image. Raises RequirementError when it is none."""

    def __init__(self, image: bytes) -> None:
        try:
            magic, _, _, header_bytes, type_start, type_bytes, name_start, name_bytes = (
                _HEADER.unpack_from(image)
            )
        except struct.error:
            raise RequirementError("the kernel's BTF is cut short", _HINT) from None
        if magic != _MAGIC:
            raise RequirementError("the kernel's BTF has a byte order or format not known", _HINT)
        types = image[header_bytes + type_start :][:type_bytes]
        names = image[header_bytes + name_start :][:name_bytes]
        if len(types) < type_bytes or len(names) < name_bytes:
            raise RequirementError("the kernel's BTF is cut short", _HINT)
        self._words = memoryview(types).cast("I")
        self._names = names
        self._positions = _type_positions(self._words)
        self._found: dict[tuple[int, str], int] = {}

    @classmethod
    def of_kernel(cls, path: Path = VMLINUX) -> Btf:
        """The running kernel's. Raises RequirementError when it has none that we may read."""
        try:
            return cls(path.read_bytes())
        except OSError as error:
            message = f"the kernel's type information {path} cannot be read: {error.strerror}"
            raise RequirementError(message, _HINT) from None

    def offset_bytes(self, structure: str, *members: str) -> int:
        """Where a member lies in a structure: `("file", "f_path", "dentry")` → bytes.

        A member of an anonymous structure or union counts as the outer one's, as in C; a bit-field
        lies in the byte of its first bit. Raises RequirementError when there is no such structure
        or member.
        """
        return self.offset_bits(structure, *members) // 8

    def offset_bits(self, structure: str, *members: str) -> int:
        """The same in bits, which tells where a bit-field begins."""
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
        """Name → value of each constant of `enum enumeration`, values being 32 bits unsigned.

        Raises RequirementError when there is no such enumeration.
        """
        position = self._definition(_ENUM, enumeration)
        start = position + _TYPE_WORDS
        end = start + 2 * (self._words[position + 1] & 0xFFFF)
        return {self._name(self._words[at]): self._words[at + 1] for at in range(start, end, 2)}

    def has_structure(self, name: str) -> bool:
        """Whether the kernel has `struct name`."""
        try:
            self._definition(_STRUCT, name)
        except RequirementError:
            return False
        return True

    def _definition(self, kind: int, name: str) -> int:
        """Position of the definition of `struct name` or `enum name`, the one with members."""
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
        """Bit offset and type id of a member, looked for in anonymous members too."""
        for member_name, bits, type_id in self._members(position):
            if member_name == name:
                return bits, type_id
            if not member_name:
                inner = self._member(self._resolved(type_id), name)
                if inner is not None:
                    return bits + inner[0], inner[1]
        return None

    def _members(self, position: int) -> Iterator[tuple[str, int, int]]:
        """Name, bit offset and type id of each member; none of what is no structure or union."""
        info = self._words[position + 1]
        if info >> 24 & 31 not in (_STRUCT, _UNION):
            return
        offset_mask = 0xFFFFFF if info >> 31 else 0xFFFFFFFF  # kind_flag: bit-field size on top
        start = position + _TYPE_WORDS
        for at in range(start, start + 3 * (info & 0xFFFF), 3):
            name_offset, type_id, offset = self._words[at : at + 3]
            yield self._name(name_offset), offset & offset_mask, type_id

    def _resolved(self, type_id: int) -> int:
        """Position of a type behind its typedefs and qualifiers."""
        position = self._positions[type_id]
        while self._words[position + 1] >> 24 & 31 in _QUALIFIERS:
            position = self._positions[self._words[position + 2]]
        return position

    def _name(self, offset: int) -> str:
        return self._names[offset : self._names.index(b"\0", offset)].decode()


@functools.lru_cache(maxsize=1)
def parsed_btf(path: Path) -> Btf:
    """`Btf.of_kernel`, parsed once until `parsed_btf.cache_clear()`: it takes 10 MiB."""
    return Btf.of_kernel(path)


def _type_positions(words: memoryview[int]) -> list[int]:
    """The word at which each type starts, by id; id 0 is `void` and points past the end."""
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
