# SPDX-License-Identifier: Apache-2.0
"""A workload, from the command-line arguments to verified files."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from contracts.shared.errors import UsageError
from profiler.cli import pull
from profiler.pull.destination import Destination
from profiler.pull.measured import PullMeasurement, measure_pull
from profiler.pull.result import Failure, PullResult, Verification
from profiler.pull.resume import Resumed
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, list_plan
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import forked


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    pull.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "own.yaml"
    path.write_text(
        "[{name: own, what: mine, objects: 30, size: 10KiB, distinct: 2, shards: 3, workers: 1,"
        " first_byte_latency: 50ms, rate_per_connection: 10MB}]"
    )
    return str(path)


def test_a_workload_is_served_with_its_shape_and_arrives(workload: str, destination: Path) -> None:
    arguments = parse("--workload", workload, str(destination))
    with pull.source_of(arguments) as (access, location, workers):
        plan = list_plan(access, location)
        with forked(), WorkerPool(access, TransferSettings(), workers) as pool:
            assert len(pool.pids) == 1
            measured = measure_pull(pool, plan, Destination(destination), None, keep=False)
    assert measured.failures == ()
    assert measured.result.objects == 3
    assert measured.result.bytes > 30 * 10 * 1024
    assert measured.return_s > 0.050
    assert list(destination.iterdir()) == []


def test_an_endpoint_is_refused_with_a_workload(workload: str, destination: Path) -> None:
    arguments = parse("--workload", workload, str(destination), "--endpoint-url", "http://h:1")
    with pytest.raises(UsageError, match="has its own server"), pull.source_of(arguments):
        pass


@pytest.mark.parametrize(("failures", "exit_code"), [((), 0), ((Failure("bad", "why"),), 1)])
def test_the_exit_code_says_whether_all_objects_arrived(
    failures: tuple[Failure, ...],
    exit_code: int,
    destination: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = PullResult(0, 1.0, 1, (0,), failures)
    measured = PullMeasurement(result, None, Verification({"MD5": 1}, (), 1.0), None, 1)
    resumed = Resumed(PullPlan(Location("b", ""), ()), ())
    monkeypatch.setattr("profiler.requirements.require", lambda *_: None)  # nothing is profiled
    monkeypatch.setattr("contracts.evaluate.evaluate", lambda *_: ())
    monkeypatch.setattr(pull, "pull_and_measure", lambda *_: (resumed, measured))
    assert pull.run(parse("s3://b/", str(destination))) == exit_code
    assert ("bad: why" in capsys.readouterr().out) == bool(failures)
