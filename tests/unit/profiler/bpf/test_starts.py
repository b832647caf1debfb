# SPDX-License-Identifier: Apache-2.0
"""The routes from directories to a rule's path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared.errors import UsageError
from profiler.bpf import starts
from profiler.bpf.paths import Inode, locate
from profiler.bpf.starts import NAMES_MAX_BYTES, Route, routes_of, routes_to, splits, with_shorter

names = st.lists(st.sampled_from(["a", "b", "ab", "é"]), min_size=1, max_size=5)


def test_splits_at_every_directory() -> None:
    assert list(splits("/made-up/images/raw")) == [
        ("/", b"made-up/images/raw/"),
        ("/made-up", b"images/raw/"),
        ("/made-up/images", b"raw/"),
    ]
    assert list(splits("/")) == []


@given(names)
def test_a_split_joins_to_the_path(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    found = list(splits(path))
    assert len(found) == len(parts)
    for directory, rest in found:
        assert os.path.join(directory, os.fsdecode(rest)) == path + "/"


def test_a_way_has_the_slots_of_the_ways_that_it_begins_with() -> None:
    here, there = Inode(1, 2), Inode(1, 3)
    slots = {
        Route(here, b"data/"): 1,
        Route(here, b"data/images/"): 2,
        Route(here, b"data2/"): 4,
        Route(there, b"data/"): 8,
    }
    assert with_shorter(slots) == {
        Route(here, b"data/"): 1,
        Route(here, b"data/images/"): 3,
        Route(here, b"data2/"): 4,
        Route(there, b"data/"): 8,
    }


def test_ways_as_written_and_without_symlinks(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    found = routes_to(str(tmp_path / "link" / "inner"))
    for directory, rest in (
        ("/", os.fsencode(f"{tmp_path}/link/inner/")[1:]),
        ("/", os.fsencode(f"{tmp_path}/real/inner/")[1:]),
        (tmp_path, b"link/inner/"),
        (tmp_path, b"real/inner/"),
        (real, b"inner/"),
    ):
        assert Route(locate(str(directory))[0], rest) in found
    assert len(found) == len(set(found))


def test_the_rules_of_one_path_share_its_routes(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    slots = routes_of({str(tmp_path): 1, str(inner): 6, "/": 8})
    root = locate("/")[0]
    assert slots[Route(root, os.fsencode(f"{tmp_path}/")[1:])] == 1
    assert slots[Route(root, os.fsencode(f"{inner}/")[1:])] == 7
    assert slots[Route(locate(str(tmp_path))[0], b"inner/")] == 6
    assert routes_of({"/": 1}) == {}


def test_where_inode_numbers_repeat_only_the_root_is_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "locate", lambda path: (Inode(0, len(path)), "btrfs"))
    assert routes_to("/made-up/images") == [Route(Inode(0, 1), b"made-up/images/")]


def test_a_path_that_the_kernel_cannot_compare(tmp_path: Path) -> None:
    room = NAMES_MAX_BYTES - len(str(tmp_path)[1:]) - len("//")
    assert routes_to(str(tmp_path / ("x" * room)))
    with pytest.raises(UsageError, match="too long"):
        routes_to(str(tmp_path / ("x" * (room + 1))))
