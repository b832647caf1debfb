# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from contracts.shared.beneath import directory_beneath, open_file_beneath
from contracts.shared.errors import UsageError
from profiler.pull.destination import Destination, publish
from profiler.pull.errors import PullError
from profiler.pull.source import Location, PullPlan, RemoteObject


def plan(*paths: str, size_bytes: int = 1) -> PullPlan:
    objects = tuple(RemoteObject(f"p/{path}", path, size_bytes, "e") for path in paths)
    return PullPlan(Location("b", "p/"), objects)


def refusal(path: Path, *paths: str, size_bytes: int = 1) -> str:
    staging = Destination(path).stage(plan(*paths, size_bytes=size_bytes))
    with pytest.raises(PullError) as error, staging:
        pytest.fail("it was not refused")
    assert error.value.hint
    return error.value.message


def test_directories_are_made_and_removed_when_nothing_came(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with Destination(tmp_path).stage(plan("a/b/c", "a/d", "old/x", "top")) as staging:
        assert (tmp_path / "a" / "b").is_dir()
        assert Path(staging.root_path).resolve() == tmp_path.resolve()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["old"]


def test_parts_are_removed_and_published_files_stay(tmp_path: Path) -> None:
    with Destination(tmp_path).stage(plan("a/b", "c/d")) as staging:
        other = tmp_path / "c" / ".writewise-of-another-run-0.part"
        for number, folder in enumerate("ac"):
            (tmp_path / folder / staging.part_name(number)).write_text("x")
            (tmp_path / folder / f"{staging.part_name(number)}.A1b2C3d4").write_text("boto3's own")
        other.write_text("x")
        with directory_beneath(staging.root_fd, ["a"]) as directory_fd:
            publish(directory_fd, staging.part_name(0), "b")
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert files == ["a", "a/b", "c", "c/.writewise-of-another-run-0.part"]


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Destination(tmp_path).stage(plan("a/b", "c")):
        pass
    refusal(tmp_path / "missing", "a")
    assert len(os.listdir("/proc/self/fd")) == before


def test_part_names_fit_where_the_longest_name_fits(tmp_path: Path) -> None:
    with Destination(tmp_path).stage(plan("n" * 255)) as staging:
        assert len(staging.part_name(10**9)) + len(".A1b2C3d4") < 255


def test_a_destination_that_is_missing(tmp_path: Path) -> None:
    message = refusal(tmp_path / "none", "a")
    assert message.endswith("cannot be used: No such file or directory")


def test_a_destination_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file", "a").endswith("cannot be used: Not a directory")


@pytest.mark.parametrize("name", ["none", "file"])
def test_before_a_pull_a_destination_that_is_no_directory_is_wrong_usage(tmp_path, name) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used") as error:
        Destination(tmp_path / name).check()
    assert error.value.hint == "create the directory, or mount the volume"
    Destination(tmp_path).check()


def test_a_plan_larger_than_the_free_space(tmp_path: Path) -> None:
    message = refusal(tmp_path, "a", "b", size_bytes=2**59)
    assert message.startswith("s3://b/p/ has 1.00 EiB, but ")
    assert list(tmp_path.iterdir()) == []


def test_a_symlink_on_the_way_is_refused_by_name(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "in"
    outside.mkdir()
    (inside / "a").mkdir(parents=True)
    (inside / "a" / "b").symlink_to(outside)
    message = refusal(inside, "a/b/c", "first/x")
    assert message.startswith("a/b below the destination is a symlink")
    assert list(outside.iterdir()) == []
    assert not (inside / "first").exists()


def test_a_file_on_the_way_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert refusal(tmp_path, "a/b").startswith("a below the destination is a file")


def test_a_directory_of_the_final_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert refusal(tmp_path, "a/b").startswith("a/b below the destination is a directory")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_symlink_that_others_could_have_made_is_not_followed(tmp_path: Path, mode: int) -> None:
    (tmp_path / "real").mkdir()
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    (shared / "link").symlink_to(tmp_path / "real")
    assert f"leads through the symlink {shared}/link, which" in refusal(shared / "link", "a")
    assert f"leads through the symlink {shared}/link, which" in refusal(shared / "link/below", "a")


def test_a_symlink_in_an_own_directory_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "real" / "deep"
    real.mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(real)
    (tmp_path / "relative").symlink_to("./real/../absolute/")
    with Destination(tmp_path / "relative").stage(plan("x/y")):
        assert (real / "x").is_dir()


def test_dots_are_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`link/..` is the parent of what the link points to, not the link's own directory."""
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/deep")
    monkeypatch.chdir(tmp_path)
    with Destination(Path("link") / "..").stage(plan("x/y")):
        assert (tmp_path / "real" / "x").is_dir()


def test_a_loop_of_symlinks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert refusal(tmp_path / "a", "x").endswith("Too many levels of symbolic links")


@pytest.mark.parametrize("names", [("..",), (".",), ("",), ("a/b",), ("link",), ("file",)])
def test_nothing_but_directories_lies_on_a_walk(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    root_fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError), directory_beneath(root_fd, names):
            pytest.fail("it was opened")
        with directory_beneath(root_fd, ("a", "b")) as directory_fd:
            assert os.readlink(f"/proc/self/fd/{directory_fd}") == str(tmp_path / "a" / "b")
        for name in ("link", "fifo", "a"):
            with pytest.raises(OSError):
                open_file_beneath(root_fd, (name,))
    finally:
        os.close(root_fd)
