# SPDX-License-Identifier: Apache-2.0
"""The textfile: replaced at once, readable by all, only in a directory of our own."""

from __future__ import annotations

import os

import pytest

from contracts.shared.errors import UsageError
from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import MetricValue
from profiler.metrics.textfile import check_textfile, write_textfile

VALUES = [MetricValue(metrics.PULL_RETURN, 12.5), MetricValue(metrics.PULL_TIME, 1.7e9)]


def test_it_is_replaced_and_readable_by_all(tmp_path) -> None:
    path = tmp_path / "writewise.prom"
    path.write_text("old")
    before = path.stat().st_ino
    mask = os.umask(0o077)
    try:
        check_textfile(path)
        write_textfile(path, VALUES)
    finally:
        os.umask(mask)
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o777 == 0o644
    assert "\nwritewise_last_pull_return_seconds 12.5\n" in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_it_has_no_timestamps(tmp_path) -> None:
    path = tmp_path / "a.prom"
    write_textfile(path, VALUES)
    samples = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert all(len(line.split()) == 2 for line in samples)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path, mode) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    for function in (check_textfile, lambda path: write_textfile(path, VALUES)):
        with pytest.raises(UsageError, match="others can write to its directory"):
            function(folder / "a.prom")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(UsageError, match="belongs to another user"):
        check_textfile(tmp_path / "a.prom")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a.txt", "end with .prom"), (".prom", "end with .prom"), ("no/a.prom", "No such file")],
)
def test_a_wrong_name_is_refused(tmp_path, name, reason) -> None:
    with pytest.raises(UsageError, match=reason):
        check_textfile(tmp_path / name)


def test_a_symlink_in_its_place_is_replaced_not_followed(tmp_path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "a.prom").symlink_to(target)
    write_textfile(tmp_path / "a.prom", VALUES)
    assert target.read_text() == "mine"
    assert not (tmp_path / "a.prom").is_symlink()
