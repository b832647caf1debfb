"""The BTF reader on images made here, so that every kind of type and every defect occurs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from contracts.errors import RequirementError
from profiler.bpf.btf import Btf

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
    """Builds a BTF image; each method returns the new type's id."""

    def __init__(self) -> None:
        self.names, self.types, self.count = b"\0", b"", 0

    def name(self, text: str) -> int:
        if not text:
            return 0
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
        """Members are name, type id, offset in bytes."""
        words = [word for member in members for word in self._member(*member)]
        return self.add(kind, name, 64, len(members), tuple(words))

    def _member(self, name: str, type_id: int, offset_bytes: int) -> tuple[int, int, int]:
        return self.name(name), type_id, offset_bytes * 8

    def bytes(self) -> bytes:
        lengths = (0, len(self.types), len(self.types), len(self.names))
        return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, *lengths) + self.types + self.names


def kernel_like() -> Image:
    image = Image()
    number = image.add(INT, "int", 4, words=(32,))
    for kind, members, words in EVERY_OTHER_KIND:
        image.add(kind, f"other{kind}", 0, members, (0,) * words)
    path = image.structure("path", ("mnt", number, 0), ("dentry", number, 8))
    const_path = image.add(CONST, refers_to=image.add(TYPEDEF, "path_t", path))
    union = image.structure("", ("__f_path", path, 0), ("f_path", const_path, 0), kind=UNION)
    inner = image.structure("", ("deep", number, 4))
    members = (("f_inode", number, 32), ("", union, 64), ("", inner, 80))
    image.structure("file", *members)
    return image


@pytest.mark.parametrize(
    ("members", "offset_bytes"),
    [
        (("f_inode",), 32),
        (("f_path",), 64),
        (("f_path", "dentry"), 72),
        (("__f_path", "dentry"), 72),
        (("deep",), 84),
        ((), 0),
    ],
)
def test_offsets(members: tuple[str, ...], offset_bytes: int) -> None:
    assert Btf(kernel_like().bytes()).offset_bytes("file", *members) == offset_bytes


def test_a_name_that_ends_like_another_is_not_it() -> None:
    image = Image()
    image.structure("profile", ("a", 0, 8))
    with pytest.raises(RequirementError, match="no structure file"):
        Btf(image.bytes()).offset_bytes("file", "a")


def test_a_union_or_forward_of_the_name_is_passed_over() -> None:
    image = Image()
    name = image.name("mount")
    for kind in (FORWARD, UNION, STRUCT):
        image.types += struct.pack("<III", name, kind << 24 | (kind == STRUCT), 8)
        image.count += 1
    image.types += struct.pack("<III", image.name("mnt"), 0, 256)
    assert Btf(image.bytes()).offset_bytes("mount", "mnt") == 32


@pytest.mark.parametrize("members", [("gone",), ("f_path", "gone"), ("f_inode", "gone")])
def test_a_missing_member_is_named(members: tuple[str, ...]) -> None:
    with pytest.raises(RequirementError, match=f"no member file.{'.'.join(members)}"):
        Btf(kernel_like().bytes()).offset_bytes("file", *members)


def test_enumerators() -> None:
    image = kernel_like()
    words = (image.name("cpu_id"), 0, image.name("io_id"), 3, image.name("none_id"), 0xFFFFFFFF)
    name = image.name("subsystem")
    for kind, members in ((STRUCT, ()), (ENUM, words)):
        info = kind << 24 | len(members) // 2
        image.types += struct.pack(f"<{3 + len(members)}I", name, info, 4, *members)
    found = Btf(image.bytes()).enumerators("subsystem")
    assert found == {"cpu_id": 0, "io_id": 3, "none_id": 0xFFFFFFFF}


def test_a_structure_is_no_enumeration() -> None:
    with pytest.raises(RequirementError, match="no enumeration file"):
        Btf(kernel_like().bytes()).enumerators("file")


@pytest.mark.parametrize("cut", [0, 10, 30, -1])
def test_an_image_cut_short(cut: int) -> None:
    with pytest.raises(RequirementError, match="cut short"):
        Btf(kernel_like().bytes()[:cut])


def test_another_byte_order() -> None:
    image = bytearray(kernel_like().bytes())
    image[:2] = reversed(image[:2])
    with pytest.raises(RequirementError, match="byte order"):
        Btf(bytes(image))


def test_no_btf_at_all(tmp_path: Path) -> None:
    with pytest.raises(RequirementError, match="No such file"):
        Btf.of_kernel(tmp_path / "vmlinux")
