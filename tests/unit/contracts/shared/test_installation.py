# SPDX-License-Identifier: Apache-2.0
"""Hints name commands that work for the way Writewise was installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from contracts.shared import installation
from profiler.requirements import checks
from tests.places import REPOSITORY


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program in a folder that is not a clone, with a Python that has no script next to it."""
    monkeypatch.setattr(installation, "CLONE", tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))


def test_a_clone_names_its_own_commands_by_absolute_paths() -> None:
    assert Path(installation.program()).is_absolute() or shutil.which("writewise")
    assert installation.how_to_set_up() == f"{REPOSITORY}/tools/setup"
    assert installation.how_to_add("bayes") == f"{REPOSITORY}/tools/setup bayes"


def test_a_command_for_sudo_has_no_relative_path() -> None:
    words = checks.AS_ROOT.partition("sudo ")[2].split()
    assert words[0] == "writewise" or Path(words[0]).is_absolute()


@pytest.mark.usefixtures("packaged")
def test_a_package_names_the_command_on_path_and_not_a_file_of_a_clone() -> None:
    assert installation.program() == "writewise"
    hints = installation.how_to_set_up() + installation.how_to_add("bayes")
    assert "tools/setup" not in hints and ".[bayes]" in hints


@pytest.mark.usefixtures("packaged")
def test_an_environment_names_its_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    script = tmp_path / "writewise"
    script.touch()
    assert installation.program() == str(script)
