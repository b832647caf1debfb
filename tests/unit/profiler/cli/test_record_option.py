# SPDX-License-Identifier: Apache-2.0
"""`pull --record`: what is written when a pull succeeds, fails or cannot be recorded."""

from __future__ import annotations

import pytest

from contracts import yaml_file
from profiler import requirements
from profiler.cli import pull
from profiler.cli.main import main
from profiler.fleet.reading import read_records
from profiler.fleet.record import PullCounts
from profiler.pull.errors import PullError
from profiler.pull.resume import Resumed
from profiler.pull.source import Location, PullPlan, RemoteObject
from tests.unit.profiler.fleet.test_measured import GOOD, SECOND
from tests.unit.profiler.report.test_pulls import CONTRACT, MIB

WORDS = ["pull", "s3://bucket/x", ".", "--contract", "contract.yaml"]
PLAN = PullPlan(Location("bucket", ""), (RemoteObject("a", "a", 1, "etag"),))


@pytest.fixture(autouse=True)
def made_up(tmp_path, monkeypatch):
    (tmp_path / "state").mkdir(0o700)
    (tmp_path / "contract.yaml").write_text(yaml_file.render(CONTRACT))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setattr(requirements, "require", lambda *_: None)
    monkeypatch.setattr(pull, "pull_and_measure", lambda *_: (Resumed(PLAN, ()), GOOD))


def pulled(where):
    return main([*WORDS, "--record", str(where)])


def records(folder):
    found = sorted(folder.rglob("*.json.gz"))
    return [record for path in found for record in read_records(path.read_bytes())]


def test_a_pull_writes_a_record(tmp_path):
    assert pulled(tmp_path / "records") == 0
    (record,) = records(tmp_path / "records")
    assert record.pulls == PullCounts(1, 0, 300 * MIB, 2 * SECOND, 6 * SECOND)
    assert record.node == (tmp_path / "state/node-id").read_text().strip()


def test_a_pull_that_ends_with_an_error_writes_a_record_too(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise PullError("S3 refused", "try again")

    monkeypatch.setattr(pull, "pull_and_measure", refuse)
    assert pulled(tmp_path / "records") == 1
    assert "S3 refused" in capsys.readouterr().err
    (record,) = records(tmp_path / "records")
    assert record.pulls == PullCounts(1, 1)


def test_a_pull_of_nothing_writes_none(tmp_path, monkeypatch):
    nothing = Resumed(PullPlan(Location("bucket", ""), ()), ())
    monkeypatch.setattr(pull, "pull_and_measure", lambda *_: (nothing, GOOD))
    assert pulled(tmp_path / "records") == 0
    assert records(tmp_path) == []


def test_a_record_that_cannot_be_written_costs_a_sentence(tmp_path, capsys):
    (tmp_path / "state/node-id").write_text("web-17")
    assert pulled(tmp_path / "records") == 0
    shown = capsys.readouterr()
    assert "time to return" in shown.out
    assert "no record was written" in shown.err and "delete it" in shown.err
    assert records(tmp_path) == []


def test_a_wrong_place_is_refused_before_the_pull(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pull, "pull_and_measure", lambda *_: pytest.fail("pulled"))
    assert pulled("http://host/x") == 2
    assert "use s3://BUCKET/PREFIX" in capsys.readouterr().err
    assert records(tmp_path) == []


def test_without_the_option_nothing_is_written(tmp_path):
    assert main(WORDS) == 0
    assert records(tmp_path) == [] and not (tmp_path / "state/node-id").exists()
