# SPDX-License-Identifier: Apache-2.0
"""`-q`, before or after the command: the result stays, progress and what to do next do not."""

from __future__ import annotations

import argparse

import pytest

from profiler.cli import options
from profiler.cli.main import main
from tests.unit.studies import Study, ratio


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Study().tried(ratio(80), 4.0).results.save(tmp_path / "results.json")
    return "results.json"


@pytest.mark.parametrize("words", [["-q", "advise"], ["advise", "--quiet"], ["advise", "-qv"]])
def test_the_result_stays_and_the_next_step_does_not(words, results, capsys):
    assert main(["advise", results]) == 0
    whole = capsys.readouterr().out
    assert "Next:" in whole
    assert main([*words, results]) == 0
    short = capsys.readouterr().out
    assert "Next:" not in short and whole.startswith(short.rstrip())


def test_progress_goes_to_standard_error_or_nowhere(capsys):
    options.progress_console(argparse.Namespace()).print("3 of 40")
    assert capsys.readouterr() == ("", "3 of 40\n")
    options.progress_console(argparse.Namespace(quiet=True)).print("3 of 40")
    assert capsys.readouterr() == ("", "")
