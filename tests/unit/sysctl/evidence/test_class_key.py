# SPDX-License-Identifier: Apache-2.0
"""The class of a node: its text, its hash, and what is refused."""

import dataclasses
import json
import re
from typing import Any

import pytest

from sysctl.evidence.circumstances import KnownVolume, NodeClass
from sysctl.evidence.class_key import (
    ClassKey,
    band_of,
    class_key_from_json,
    class_key_of,
    class_problems,
)

SHARED = NodeClass(
    fstype="ext4",
    mount_words=("noatime", "commit=60"),
    volume=KnownVolume("gp3", 100, 3000, 125),
    instance="m5.large",
    kernel="6.1.0-38-cloud-amd64",
    client="direct",
)
KEY = class_key_of(SHARED, cgroup_version=2, memory_limit_bytes=2_000_000_000)


def test_the_text_has_every_value_and_a_hash():
    readable = "m5.large_gp3-3000-125_ext4-commit-60-noatime_6.1_cgroup2_2GiB_direct"
    assert str(KEY) == f"{readable}_{KEY.hash}"
    assert re.fullmatch(r"[0-9a-f]{16}", KEY.hash)


def test_the_hash_is_the_same_on_every_host():
    assert ClassKey(file_system="xfs").hash == "b2deb55cf82084a6"


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(ClassKey)])
def test_every_field_makes_another_class(field):
    other = {"mount_words": ("sync",), "cgroup_version": 1, "volume_iops": 16000}
    changed: dict[str, Any] = {field: other.get(field, 250.0 if "mib" in field else "other")}
    assert str(dataclasses.replace(KEY, **changed)) != str(KEY)


def test_a_host_where_nothing_is_known_has_a_class_too():
    key = class_key_of(NodeClass(fstype=""), cgroup_version=None, memory_limit_bytes=None)
    assert key == ClassKey()
    assert str(key).startswith("unknown_unknown_unknown_unknown_unknown_unlimited_unknown_")


def test_kernels_of_one_line_and_ordered_words_are_one_class():
    patched = dataclasses.replace(
        SHARED, kernel="6.1.99", mount_words=("commit=60", "noatime"), objects=7, bytes=9
    )
    assert class_key_of(patched, cgroup_version=2, memory_limit_bytes=2**31) == KEY


def test_json_gives_the_same_key_back():
    assert class_key_from_json(json.loads(json.dumps(KEY.to_json()))) == KEY
    with_whole_rate = {**KEY.to_json(), "volume_mib_per_s": 125}
    assert str(class_key_from_json(with_whole_rate)) == str(KEY)


def test_text_of_others_becomes_a_word_without_paths():
    hostile = dataclasses.replace(SHARED, instance="../../etc/passwd", client="a b\n' OR 1=1 --")
    key = class_key_of(hostile, cgroup_version=2, memory_limit_bytes=None)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", str(key))
    assert not str(key).startswith(".")
    assert list(class_problems(json.loads(json.dumps(key.to_json())))) == []


@pytest.mark.parametrize(
    ("limit_bytes", "band"),
    [(1, "1MiB"), (2**20, "1MiB"), (2**20 + 1, "2MiB"), (2**30, "1GiB"), (2**30 + 1, "2GiB"),
     (2**39 + 1, "1TiB"), (2**63, "8192TiB")],
)  # fmt: skip
def test_bands_are_powers_of_two(limit_bytes, band):
    assert band_of(limit_bytes) == band


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("file_system", "../ext4"),
        ("file_system", 4),
        ("mount_words", None),
        ("mount_words", ["b", "a"]),
        ("mount_words", ["a"] * 17),
        ("mount_words", "noatime"),
        ("instance_type", "m5.large'; DROP TABLE records; --"),
        ("volume_type", ""),
        ("volume_iops", -1),
        ("volume_iops", True),
        ("volume_iops", 3000.5),
        ("volume_iops", 10**30),
        ("volume_mib_per_s", float("nan")),
        ("volume_mib_per_s", float("inf")),
        ("kernel", "6.1.0"),
        ("cgroup_version", True),
        ("cgroup_version", 3),
        ("memory_limit_band", "2 GiB"),
        ("client", "x" * 49),
    ],
)
def test_an_invalid_value_is_named(field, value):
    data = {**KEY.to_json(), field: value}
    (problem,) = class_problems(data)
    assert problem.startswith(f"class.{field}: ")
    with pytest.raises(ValueError, match=re.escape(f"class.{field}")):
        class_key_from_json(data)


def test_every_problem_is_named_at_once():
    data = {**KEY.to_json(), "kernel": 6, "client": [], "path": "/"}
    del data["volume_type"]
    assert [each.split(":")[0] for each in class_problems(data)] == [
        "class", "class.volume_type", "class.client", "class.kernel"
    ]  # fmt: skip
    assert list(class_problems([])) == ["class: not an object"]
