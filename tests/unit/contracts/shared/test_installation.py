"""Hints name commands that work for the way in which Writewise was installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contracts.shared import installation


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program below a folder that is no clone, with a Python that has no script beside it."""
    monkeypatch.setattr(installation, "CLONE", tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))


def test_a_clone_names_its_own_commands() -> None:
    assert installation.command() == ".venv/bin/writewise"
    assert installation.how_to_set_up() == "tools/setup"
    assert installation.how_to_add("bayes") == "tools/setup bayes"


@pytest.mark.usefixtures("packaged")
def test_a_package_names_the_command_on_path_and_no_file_of_a_clone() -> None:
    assert installation.command() == "writewise"
    hints = installation.how_to_set_up() + installation.how_to_add("bayes")
    assert "tools/setup" not in hints and ".[bayes]" in hints


@pytest.mark.usefixtures("packaged")
def test_an_environment_names_its_script(tmp_path: Path) -> None:
    script = tmp_path / "writewise"
    script.touch()
    assert installation.command() == str(script)
