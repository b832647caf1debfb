# SPDX-License-Identifier: Apache-2.0
"""Commands that the docs show are run, where they need no root, bucket or network."""

from __future__ import annotations

import shlex
import shutil

import pytest

from profiler.cli.main import main
from tests.places import REPOSITORY
from tests.unit.repository.test_docs import commands_of_the_docs
from tests.unit.studies import Study, ratio

#: The words that a command begins with → the exit codes that docs/reference/exit-codes.md has for
#: a host on which nothing was applied, and which may lack something.
RUNNABLE = {
    "advise writewise-results.json": {0},
    "predict writewise-results.json": {0},
    "apply recommendation.json --dry-run": {0},
    "verify recommendation.json": {0, 1},
    "contract check FILE": {0},
    "clients": {0},
    "doctor": {0, 3},
}


def exit_codes_of(command):
    return next((RUNNABLE[start] for start in RUNNABLE if command.startswith(start)), None)


RUN = sorted({each for each in commands_of_the_docs() if exit_codes_of(each)})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the docs name; the results are of a made-up sweep."""
    monkeypatch.chdir(tmp_path)
    study = Study(durable_s=31.5).tried(ratio(60, 10), 4.0, stall_share=0.0)
    study.results.save(tmp_path / "writewise-results.json")
    shutil.copy(REPOSITORY / "contracts/library/case-study.yaml", tmp_path / "FILE")
    assert main(["advise", "writewise-results.json"]) == 0
    return tmp_path


def test_each_kind_is_shown():
    assert [start for start in RUNNABLE if not any(each.startswith(start) for each in RUN)] == []
    assert len(RUN) >= 14


@pytest.mark.parametrize("command", RUN)
def test_a_command_of_the_docs_does_what_it_says(command, folder, capsys):
    capsys.readouterr()
    assert main(shlex.split(command, comments=True)) in exit_codes_of(command)
    printed = capsys.readouterr()
    assert printed.out and "this is a bug" not in printed.err
