# SPDX-License-Identifier: Apache-2.0
"""`--version`: the commit of a clone, of a worktree and of a package; kernel, Python and BCC."""

from __future__ import annotations

import os
import platform
import re
import subprocess

import pytest

from profiler.cli import version
from profiler.cli.main import main

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(folder, *words):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run([*GIT, *words], cwd=folder, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "first")
    return folder


def test_the_head_of_a_clone(clone):
    assert version.head_of(clone) == git(clone, "rev-parse", "HEAD")
    git(clone, "pack-refs", "--all")
    assert version.head_of(clone) == git(clone, "rev-parse", "HEAD")
    git(clone, "checkout", "--quiet", "--detach")
    assert version.head_of(clone) == git(clone, "rev-parse", "HEAD")


def test_the_head_of_a_worktree(clone, tmp_path):
    worktree = tmp_path / "worktree"
    git(clone, "worktree", "add", "--quiet", "-b", "side/way", str(worktree))
    git(worktree, "commit", "--quiet", "--allow-empty", "--message", "second")
    assert version.head_of(worktree) == git(worktree, "rev-parse", "HEAD")
    assert version.head_of(worktree) != version.head_of(clone)


def test_a_branch_without_a_commit_has_none(tmp_path):
    git(tmp_path, "init", "--quiet")
    with pytest.raises(OSError, match="packed-refs"):
        version.head_of(tmp_path)


def test_an_installed_program_names_what_it_was_built_from(tmp_path, monkeypatch):
    monkeypatch.setattr(version, "is_clone", lambda: False)
    recorded = tmp_path / "commit.txt"
    monkeypatch.setattr(version, "RECORDED", recorded)
    assert version.commit() == ""
    recorded.write_text("0123456789abcdef0123456789abcdef01234567\n")
    assert version.commit() == "0123456789ab"
    recorded.write_text("\x1b[31m\n")
    assert version.commit() == ""


def test_the_versions_in_use(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"writewise \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\))?", first)
    assert platform.release() in second and f"Python {platform.python_version()}" in second
    assert re.search(r", BCC (\d+\.\d+|not installed)", second)


def test_verbose_prints_them_and_what_caused_an_error(capsys):
    assert main(["-v", "advise", "/nothing.json"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("writewise ") and "Python" in lines[1]
    assert lines[2].startswith("writewise: cannot read the results /nothing.json: No such file")
    assert any(line.startswith("writewise: caused by FileNotFoundError") for line in lines[3:])
    assert main(["advise", "/nothing.json"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
