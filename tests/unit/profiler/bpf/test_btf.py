# SPDX-License-Identifier: Apache-2.0
"""The BTF reader on images made here, so that every kind of type and every defect occurs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from contracts.shared.errors import RequirementError
from profiler.bpf.btf import Btf, kernel_hint
from profiler.bpf.layouts import missing_members
from profiler.bpf.probes import ALL
from tests.unit.btf_images import (
    CONST,
    ENUM,
    EVERY_OTHER_KIND,
    FORWARD,
    INT,
    STRUCT,
    TYPEDEF,
    UNION,
    Image,
    image_of,
)


def kernel_like() -> Image:
    image = Image()
    number = image.add(INT, "int", 4, words=(32,))
    for kind, others, words in EVERY_OTHER_KIND:
        image.add(kind, f"other{kind}", 0, others, (0,) * words)
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


def test_a_name_with_the_same_ending_is_not_found() -> None:
    image = Image()
    image.structure("profile", ("a", 0, 8))
    with pytest.raises(RequirementError, match="no structure file"):
        Btf(image.bytes()).offset_bytes("file", "a")


def test_a_union_or_forward_of_the_same_name_is_skipped() -> None:
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


def test_a_structure_is_not_an_enumeration() -> None:
    with pytest.raises(RequirementError, match="no enumeration file"):
        Btf(kernel_like().bytes()).enumerators("file")


@pytest.mark.parametrize("cut", [0, 10, 30, -1])
def test_an_image_cut_short(cut: int) -> None:
    with pytest.raises(RequirementError, match="truncated"):
        Btf(kernel_like().bytes()[:cut])


def test_another_byte_order() -> None:
    image = bytearray(kernel_like().bytes())
    image[:2] = reversed(image[:2])
    with pytest.raises(RequirementError, match="byte order"):
        Btf(bytes(image))


def test_no_btf_at_all(tmp_path: Path) -> None:
    with pytest.raises(RequirementError, match="No such file"):
        Btf.of_kernel(tmp_path / "vmlinux")


NEEDED = tuple(dict.fromkeys(path for probe in ALL for path in probe.members.values()))


def test_a_kernel_with_every_member_lacks_nothing() -> None:
    assert missing_members(ALL, Btf(image_of(NEEDED))) == []


@pytest.mark.parametrize("gone", NEEDED, ids=".".join)
def test_each_member_that_a_kernel_lacks_is_named(gone: tuple[str, ...]) -> None:
    structures = {(probe.structure,) for probe in ALL if probe.structure}
    image = image_of([*structures, *(path for path in NEEDED if path != gone)])
    assert missing_members(ALL, Btf(image)) == [".".join(gone)]


def test_a_probe_that_is_left_out_needs_no_member() -> None:
    without_uring = image_of(path for path in NEEDED if path[0] != "io_kiocb")
    assert missing_members(ALL, Btf(without_uring)) == []


def test_the_remedy_names_the_oldest_kernel() -> None:
    with pytest.raises(RequirementError, match=r"no member request_queue\.disk") as refused:
        Btf(image_of([("request_queue", "queuedata")])).offset_bytes("request_queue", "disk")
    assert "Linux 6.1" in refused.value.hint


def test_a_new_kernel_that_lacks_a_member_is_not_called_too_old():
    assert "boot Linux 6.1 or later" in kernel_hint("5.10.0-46-amd64")
    assert "boot Linux 6.1 or later" in kernel_hint("6.0.19")
    assert "Linux 7.3.4 is newer than Linux 6.1" in kernel_hint("7.3.4")
    assert "6.10.1" in kernel_hint("6.10.1")
