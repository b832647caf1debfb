# SPDX-License-Identifier: Apache-2.0
"""The folder of a workload's objects: what killed runs left goes, and nothing else."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profiler.client_bench.sources import check_space
from profiler.workloads.catalogue import Workload
from profiler.workloads.folder import temporary_folder

PREFIX = "writewise-objects-"


@pytest.fixture(autouse=True)
def tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left(folder: Path, name: str, mode: int = 0o700) -> Path:
    """A folder as a killed run leaves it."""
    path = folder / f"{PREFIX}{name}"
    (path / "contents").mkdir(parents=True)
    (path / "contents" / "0").write_bytes(b"x")
    path.chmod(mode)
    return path


def test_it_is_private_and_goes_at_the_end(tmpdir: Path) -> None:
    with temporary_folder() as folder:
        (folder / "buckets").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmpdir.iterdir()) == []


def test_leftovers_of_a_killed_run_are_removed(tmpdir: Path) -> None:
    """A real one: a process that makes a folder, fills it and is killed."""
    source = (
        "import os, signal, tempfile; from profiler.workloads.folder import temporary_folder\n"
        f"tempfile.tempdir = {str(tmpdir)!r}\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'contents').mkdir(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", source], check=False)
    assert ended.returncode == -signal.SIGKILL
    (found,) = tmpdir.iterdir()
    with temporary_folder() as folder:
        assert list(tmpdir.iterdir()) == [folder] != [found]


def test_the_space_of_what_was_left_counts_as_free(tmpdir: Path) -> None:
    left(tmpdir, "killed")
    check_space([Workload("small", "fits", objects=1, size_bytes=1)], tmpdir)
    assert list(tmpdir.iterdir()) == []


def test_the_folder_of_a_run_that_lives_stays(tmpdir: Path) -> None:
    with temporary_folder() as first:
        (first / "contents").mkdir()
        with temporary_folder() as second:
            assert first != second
        assert (first / "contents").is_dir()


def test_one_that_is_new_and_not_locked_yet_stays(tmpdir: Path) -> None:
    new = tmpdir / f"{PREFIX}new"
    new.mkdir(mode=0o700)
    with temporary_folder():
        assert new.is_dir()


def test_folders_of_others_stay(tmpdir: Path) -> None:
    other = left(tmpdir, "others", mode=0o755)  # ours are 0700
    target = left(tmpdir, "target")
    target = target.rename(tmpdir / "elsewhere")
    (tmpdir / f"{PREFIX}link").symlink_to(target)
    os.mkfifo(tmpdir / f"{PREFIX}fifo")
    held = left(tmpdir, "held")
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    with temporary_folder():
        pass
    os.close(descriptor)
    kept = (other, target, held)
    assert all((path / "contents" / "0").read_bytes() == b"x" for path in kept)
    assert (tmpdir / f"{PREFIX}link").is_symlink()
