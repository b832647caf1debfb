# SPDX-License-Identifier: Apache-2.0
"""The environment of the programs that Writewise starts, and where it looks for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contracts.shared.environment import for_programs, safe_path, secrets_hidden
from contracts.shared.errors import WritewiseError
from sysctl.host.system import run_command


@pytest.mark.parametrize(
    "name",
    [
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
        *("AWS_CONTAINER_AUTHORIZATION_TOKEN", "GITHUB_TOKEN", "DB_PASSWORD", "https_proxy"),
        *("DATABASE_URL", "PGPASSFILE", "KUBECONFIG", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV"),
        *("WRITEWISE_TOKEN", "LC_SECRET"),
    ],
)
def test_secrets_are_left_out(name: str) -> None:
    assert name not in for_programs({name: "marker", "LANG": "C"})
    assert for_programs({name: "marker", "LANG": "C"})["LANG"] == "C"


def test_a_program_gets_no_secrets(monkeypatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "marker")
    told = run_command(["env"])
    assert "LC_ALL=C" in told.split()
    assert "marker" not in told


def test_secrets_come_back_when_a_library_starts_a_process(monkeypatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "marker")
    with secrets_hidden():
        assert "AWS_SESSION_TOKEN" not in os.environ
    assert os.environ["AWS_SESSION_TOKEN"] == "marker"


@pytest.mark.parametrize("entry", ["", ".", "bin", "/no/such/folder", "\0"])
def test_a_directory_that_root_does_not_own_is_not_searched(entry: str) -> None:
    assert safe_path(f"{entry}:/usr/bin") == "/usr/bin"


@pytest.mark.parametrize("name", ["HOME", "LC_ALL", "TMPDIR", "BCC_KERNEL_SOURCE", "TZ"])
def test_variables_that_programs_need_are_kept(name: str) -> None:
    assert for_programs({name: "x"})[name] == "x"


def test_a_directory_below_one_of_another_user_is_not_searched(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to("folder/bin")
    searched = f"{folder.resolve()}/bin"
    assert safe_path(f"{folder}/bin") == safe_path(f"{tmp_path}/link") == searched
    for mode, where in ((0o777, folder), (0o1777, folder / "bin")):
        where.chmod(mode)
        assert safe_path(f"{tmp_path}/link:{folder}/bin:/usr/bin") == "/usr/bin"
        where.chmod(0o755)


def test_an_empty_path_becomes_the_distributions() -> None:
    assert "/usr/bin" in safe_path("").split(":")


def test_a_program_planted_by_another_user_is_not_run(tmp_path: Path, monkeypatch) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "losetup").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (tmp_path / "losetup").chmod(0o755)
    tmp_path.chmod(0o777)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    try:
        run_command(["losetup", "--version"])
    except WritewiseError:
        pass
    finally:
        tmp_path.chmod(0o700)
    assert not mark.exists()
