# SPDX-License-Identifier: Apache-2.0
"""A report in a file is complete, or an error names the place of the complete report."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.shared.errors import WritewiseError
from profiler.report.destination import new_file


def _replaced(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    path.write_text("x\n")


def _overwritten(path: Path) -> None:
    (path.parent / "other").write_text("x\n")
    (path.parent / "other").replace(path)


@pytest.mark.parametrize("disturb", [_replaced, _overwritten, Path.unlink])
def test_a_report_whose_file_was_taken_away_is_not_lost(
    disturb: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "folder" / "report"
    path.parent.mkdir()
    with (
        pytest.raises(WritewiseError, match="was removed or replaced") as caught,
        new_file(str(path)) as file,
    ):
        file.write("the report\n")
        disturb(path)
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == "the report\n"
    assert not path.exists() or path.read_text() == "x\n"


def test_a_file_that_replaced_the_report_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "report"
    path.parent.mkdir()
    with pytest.raises(KeyError), new_file(str(path)):
        _replaced(path)
        raise KeyError
    assert path.read_text() == "x\n"


def test_a_report_that_is_not_made_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(KeyError), new_file(str(tmp_path / "report")):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
