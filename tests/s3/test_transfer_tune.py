"""Tuning by real pulls from our server, shaped: the bench, and the command from end to end."""

from __future__ import annotations

import csv
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.shared.errors import UsageError
from profiler.cli.main import main
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import by_name
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError, PullStoppedError
from profiler.pull.source import list_plan, parse_location
from profiler.pull.workers import WorkerPool
from profiler.tune.bench import TransferBench
from profiler.tune.tuner import Tuner
from sysctl.host.host import WRITER, Host
from tests.s3.conftest import BUCKET, MIB

SIZE = 24 * MIB


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """5 ms to the first byte and 40 MB/s per connection, so that connections decide."""
    root = tmp_path_factory.mktemp("tune")
    (root / BUCKET).mkdir()
    (root / BUCKET / "object").write_bytes(os.urandom(SIZE))
    with S3Server(root, first_byte_latency_s=0.005, rate_bytes_per_s=40_000_000) as server:
        yield server.endpoint_url


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the host's: other tests change it at the same time."""
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))


def bench_for(endpoint: str, destination: Path, **options: object) -> TransferBench:
    access = S3Access(endpoint)
    plan = list_plan(access, parse_location(f"s3://{BUCKET}/object"))
    return TransferBench(access, plan, Destination(destination), **options)


def test_a_pull_is_measured_verified_and_deleted(endpoint: str, destination: Path) -> None:
    bench = bench_for(endpoint, destination)
    with bench.opened({"max_concurrency": 10, "multipart_chunksize": 8 * MIB}) as pull_once:
        pull = pull_once(None)
    assert pull.bytes == SIZE
    assert pull.seconds > 8 * MIB / 40_000_000  # three connections, 8 MiB each
    assert pull.cpu_s > 0
    assert 0 <= pull.busy_share <= 1
    assert list(destination.iterdir()) == []


def test_connections_are_what_counts_on_a_shaped_server(endpoint: str, destination: Path) -> None:
    bench = bench_for(endpoint, destination)
    with bench.opened({"use_threads": False}) as one, bench.opened({}) as three:
        assert one(None).seconds > 1.3 * three(None).seconds


@pytest.mark.parametrize("client", ["transfer-manager", "boto3"])
def test_the_client_of_a_point_pulls(
    client: str, endpoint: str, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    original = WorkerPool.__init__

    def remember(self: WorkerPool, *arguments: object) -> None:
        made.append(arguments[-1])
        original(self, *arguments)

    monkeypatch.setattr(WorkerPool, "__init__", remember)
    with bench_for(endpoint, destination).opened({"client": client}) as pull_once:
        assert pull_once(None).bytes == SIZE
    assert made == [by_name(client).make]


def test_a_pull_is_stopped_and_the_next_one_works(endpoint: str, destination: Path) -> None:
    bench = bench_for(endpoint, destination)
    with bench.opened({"use_threads": False}) as pull_once:
        with pytest.raises(PullStoppedError):
            pull_once(0.1)
        assert list(destination.iterdir()) == []
        assert pull_once(None).bytes == SIZE


def test_time_until_durable_includes_the_sync(
    endpoint: str, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiler.pull.measured.sync_file_system", lambda _: time.sleep(5))
    with bench_for(endpoint, destination, durable=True).opened({}) as pull_once:
        assert pull_once(None).seconds > 5
    with bench_for(endpoint, destination).opened({}) as pull_once:
        assert pull_once(None).seconds < 5


def test_a_point_that_needs_more_memory_than_there_is_is_not_tried(
    endpoint: str, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiler.tune.bench.read_available_bytes", lambda system: SIZE)
    bench = bench_for(endpoint, destination)
    with pytest.raises(PullError, match="may wait in memory"), bench.opened({}):
        pass
    with bench.opened({"max_io_queue": 10, "max_concurrency": 10}):
        pass


def test_the_context_records_the_writeback_settings(endpoint: str, destination: Path) -> None:
    context = bench_for(endpoint, destination).context()
    assert "vm.dirty_expire_centisecs" in context["writeback"]
    assert context["bytes"] == SIZE
    assert context["workers"] == 1
    json.dumps(context)


@pytest.mark.parametrize("strategy", ["random", "optuna"])
def test_the_command_from_end_to_end(
    strategy: str, endpoint: str, destination: Path, tmp_path: Path, capsys
) -> None:
    if strategy == "optuna":
        pytest.importorskip("optuna", reason="pip install -e .[bayes]")
    words = f"transfer tune s3://{BUCKET}/object {destination} --endpoint-url {endpoint} "
    words += f"--trials 3 --pulls 1 --pairs 2 --strategy {strategy} --clients boto3 "
    words += f"--output {tmp_path}/out"
    assert main(words.split()) == 0
    printed = capsys.readouterr()
    assert "The search ended after 3 trials: no more than 3 trials were to be made." in printed.out
    assert "trial 0:" in printed.err
    rows = list(csv.DictReader((tmp_path / "out" / "trials.csv").open()))
    assert len(rows) == 3
    assert rows[0]["max_concurrency"] == "10"
    document = json.loads((tmp_path / "out" / "tuning.json").read_text())
    assert document["context"]["source"] == f"s3://{BUCKET}/object"
    assert (document["recommended"] is not None) == (tmp_path / "out/transfer.json").exists()
    assert list(destination.iterdir()) == []


def test_a_tuning_whose_recheck_fails_has_no_verdict_and_says_so(
    endpoint: str, destination: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    def fail(*_: object) -> str:
        return "the recheck failed. S3 was gone"

    monkeypatch.setattr(Tuner, "_recheck", fail)
    words = f"transfer tune s3://{BUCKET}/object {destination} --endpoint-url {endpoint} "
    words += f"--trials 1 --pulls 1 --strategy random --output {tmp_path}/out"
    assert main(words.split()) == 1
    assert "the recheck failed. S3 was gone" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--strategy gp", "'gp' is no strategy"),
        ("--space speed", "'speed' cannot be tuned"),
        ("--budget 1ms", "the budget of 1.00 ms is over before boto3's defaults were measured"),
        ("--transfer io_chunksize=1", "io_chunksize: use 1kB to 1GiB"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    words: str, problem: str, endpoint: str, destination: Path, tmp_path: Path, capsys
) -> None:
    command = f"transfer tune s3://{BUCKET}/object {destination} --endpoint-url {endpoint} {words}"
    assert main(f"{command} --output {tmp_path}/out".split()) == 2
    assert problem in capsys.readouterr().err


def test_a_folder_of_others_is_refused_before_the_search(
    endpoint: str, destination: Path, tmp_path: Path, capsys
) -> None:
    (tmp_path / "transfer.json").write_text("{}")
    words = f"transfer tune s3://{BUCKET}/object {destination} --endpoint-url {endpoint} "
    assert main(f"{words} --output {tmp_path}".split()) == 2
    printed = capsys.readouterr()
    assert "transfer.json was not written by Writewise" in printed.err
    assert "trial 0" not in printed.err


def test_a_folder_that_fails_after_the_search_does_not_lose_the_table(
    endpoint: str, destination: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise UsageError("cannot write tuning.json: No space left on device")

    monkeypatch.setattr("profiler.tune.outputs.write", full)
    words = f"transfer tune s3://{BUCKET}/object {destination} --endpoint-url {endpoint} "
    words += f"--trials 1 --pulls 1 --strategy random --output {tmp_path}/out"
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert "The search ended after 1 trial" in printed.out
    assert "No space left on device" in printed.err


def test_a_signal_leaves_what_was_measured_in_files(
    endpoint: str, destination: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "profiler.cli.main", "transfer", "tune"]
    command += [f"s3://{BUCKET}/object", str(destination), "--endpoint-url", endpoint]
    command += ["--pulls", "1", "--strategy", "random", "--output", str(tmp_path / "out")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], **pipes) as process:
        said = "".join(itertools.takewhile(lambda line: "trial 0:" not in line, process.stderr))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert "search for at most 125 s" in said
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "Interrupted before the recheck was done: nothing is recommended." in out
    assert json.loads((tmp_path / "out" / "tuning.json").read_text())["interrupted"]
    assert list(csv.DictReader((tmp_path / "out" / "trials.csv").open()))
    assert not (tmp_path / "out" / "transfer.json").exists()
    assert list(destination.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can take the lock of sweep")
def test_it_is_refused_while_another_measures(
    endpoint: str, destination: Path, tmp_path: Path, capsys
) -> None:
    words = f"transfer tune s3://{BUCKET}/object {destination} --endpoint-url {endpoint}"
    with Host.lasting(WRITER, "sweep of /data"):
        assert main(words.split()) == 1
    assert "another writewise is at work on this host: sweep of /data" in capsys.readouterr().err
