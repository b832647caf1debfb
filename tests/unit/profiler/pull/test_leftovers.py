# SPDX-License-Identifier: Apache-2.0
"""What a killed pull left is removed by the next one; what a live one has is never touched."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.pull import leftovers
from profiler.pull.destination import Destination, Staging
from profiler.pull.errors import PullError
from profiler.pull.source import Location, PullPlan, RemoteObject


def plan(*paths: str) -> PullPlan:
    objects = tuple(RemoteObject(f"p/{path}", path, 1, "e") for path in paths)
    return PullPlan(Location("b", "p/"), objects)


def write_parts(path: Path, staging: Staging) -> list[Path]:
    parts = []
    for number, remote in enumerate(staging.plan.objects):
        part = path.joinpath(*remote.directory, staging.part_name(number))
        parts += [part, part.with_name(f"{part.name}.A1b2C3d4")]  # the second is boto3's own
    for part in parts:
        part.write_text("x")
    return parts


def killed_pull(path: Path, *paths: str) -> list[Path]:
    """As the kernel leaves it: files stay, descriptors are closed."""
    with Destination(path).open() as root_fd:
        staging = Staging(plan(*paths), root_fd)
        staging.claim("here")
        staging.make_directories()
        return write_parts(path, staging)


@pytest.fixture
def space(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "data").mkdir()
    yield tmp_path / "data"


def test_a_killed_pulls_parts_are_removed_by_the_next(space: Path) -> None:
    parts = killed_pull(space, "top", "a/b/c")
    assert len(parts) == 4
    with Destination(space).stage(plan("other", "a/b/d")):
        assert not [part for part in parts if part.exists()]


def test_a_live_pulls_parts_stay_also_when_another_ends(space: Path) -> None:
    with Destination(space).stage(plan("a/x")) as staging:
        parts = write_parts(space, staging)
        for _ in range(2):  # the first leaves no trace of it having been alone
            with Destination(space).stage(plan("a/x")):
                assert all(part.exists() for part in parts)
        assert all(part.exists() for part in parts)
    assert list(space.iterdir()) == []


def test_destinations_in_each_other_do_not_touch_each_others_parts(space: Path) -> None:
    with Destination(space).stage(plan("a/x")) as staging:
        parts = write_parts(space, staging)
        with Destination(space / "a").stage(plan("y")):
            assert all(part.exists() for part in parts)


def test_nothing_but_parts_is_removed(space: Path) -> None:
    (part, _) = killed_pull(space, "x")
    prefix = part.name[: -len("0123456789abcdef-0.part")]
    others = [
        ".writewise-notes",
        f"{prefix}notes.part",
        f"{prefix}0123456789abcdef-0.part.old.txt",
        ".writewise-fedcba9876543210-0123456789abcdef-0.part",
    ]
    for name in others:
        (space / name).write_text("a user's")
    (space / f"{prefix}0123456789abcdef-1.part").mkdir()
    with Destination(space).stage(plan("x")):
        pass
    kept = {path.name for path in space.iterdir() if path.is_file()}
    assert kept == set(others)


def test_a_destination_that_stays_locked_is_one_sentence(
    space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "LOCK_TIMEOUT_S", 0)
    (part, _) = killed_pull(space, "x")
    other = os.open(space, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused = pytest.raises(PullError, match="another program has locked the destination")
        with refused, Destination(space).stage(plan("x")):
            pytest.fail("it was staged")
        assert part.exists()
    finally:
        os.close(other)
    with Destination(space).stage(plan("x")):
        assert not part.exists()
