# SPDX-License-Identifier: Apache-2.0
"""The directory for the client's files: by descriptor, and only if it is the one that was made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from profiler.pull.errors import PullError
from profiler.pull.program_directory import made_below


def test_its_path_stays_with_it_when_its_name_goes(tmp_path: Path) -> None:
    with made_below(str(tmp_path), "own") as path:
        assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
        (tmp_path / "own").rename(tmp_path / "away")
        (tmp_path / "own").symlink_to("/nowhere")
        Path(path, "file").write_text("x")
    assert (tmp_path / "away" / "files" / "file").exists()
    assert not Path(path).exists()


def open_to_others(path: Path) -> None:
    path.chmod(0o770)


def filled(path: Path) -> None:
    (path / "files").symlink_to("/etc")


def linked(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.symlink_to("away")


@pytest.mark.parametrize("replace", [open_to_others, filled, linked])
def test_a_directory_replaced_before_it_was_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: Callable[[Path], None]
) -> None:
    make = os.mkdir

    def make_and_replace(name: str, mode: int, *, dir_fd: int) -> None:
        make(name, mode, dir_fd=dir_fd)
        replace(tmp_path / "own")

    monkeypatch.setattr(os, "mkdir", make_and_replace)
    refused = pytest.raises(PullError, match="directory for the client's files")
    with refused, made_below(str(tmp_path), "own"):
        pytest.fail("it was used")
