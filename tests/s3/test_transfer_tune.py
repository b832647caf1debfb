# SPDX-License-Identifier: Apache-2.0
"""`transfer tune` with real pulls from our shaped server: the bench and the whole command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.cli.main import main
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import by_name
from profiler.pull.errors import PullError
from profiler.pull.settings import TransferSettings, parse_settings
from profiler.pull.source import list_plan, parse_location
from profiler.study.joint import TrialWorkers
from profiler.study.transfer_bench import TransferBench
from sysctl.evidence.results import PRICE, RECHECK, load
from sysctl.host.host import WRITER, Host
from sysctl.host.mount_table import mount_of
from sysctl.host.system import System
from sysctl.knobs.setting import Setting
from sysctl.knobs.transfer import TRANSFER_CLIENT
from sysctl.sweep.steps import StoppedEarly
from tests.places import REPOSITORY
from tests.s3.conftest import BUCKET, MIB

SIZE = 24 * MIB
ONE_THREAD = Setting((), transfer=(("use_threads", 0),))
DEFAULTS = Setting((), transfer=(("use_threads", 1),))


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """5 ms to the first byte and 20 MB/s per connection, so that connections decide."""
    root = tmp_path_factory.mktemp("tune")
    (root / BUCKET).mkdir()
    (root / BUCKET / "object").write_bytes(os.urandom(SIZE))
    with S3Server(root, first_byte_latency_s=0.005, rate_bytes_per_s=20_000_000) as server:
        yield server.endpoint_url


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a lock of its own: other tests take the host's at the same time."""
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))


@pytest.fixture
def bench(endpoint: str, destination: Path) -> Iterator[TransferBench]:
    access = S3Access(endpoint)
    plan = list_plan(access, parse_location(f"s3://{BUCKET}/object"))
    client = by_name(TRANSFER_CLIENT)
    with TrialWorkers(access, TransferSettings(), 1, client) as workers:
        yield TransferBench(
            plan=plan,
            destination=destination,
            mount_target=mount_of(System().mounts(), str(destination)).target,
            disk=None,
            fresh_pool=workers.fresh,
            say=lambda what: None,
            on_phase=lambda phase, progress: None,
        )


def test_a_pull_is_observed_as_far_as_possible_without_root(
    bench: TransferBench, destination: Path
) -> None:
    bench.apply(DEFAULTS)
    seen = bench.measure(durable=False)
    assert seen.bytes == SIZE and seen.objects == 1
    assert seen.return_s > 8 * MIB / 20_000_000  # three connections, 8 MiB each
    assert seen.durable_s is None and seen.stall_share is None
    assert seen.thresholds.dirty_bytes == seen.limit_bytes > 0
    assert seen.held_up_by in ("bandwidth", "cpu", "latency", "writes")
    assert list(destination.iterdir()) == []


def test_connections_decide_on_a_shaped_server(bench: TransferBench) -> None:
    took = {}
    for setting in (ONE_THREAD, DEFAULTS):
        bench.apply(setting)
        took[setting] = bench.measure(durable=False).return_s
    assert took[ONE_THREAD] > 1.3 * took[DEFAULTS]


def test_a_pull_is_stopped_and_the_next_one_works(bench: TransferBench, destination: Path) -> None:
    bench.apply(ONE_THREAD)
    with pytest.raises(StoppedEarly):
        bench.measure(durable=False, stop_after_s=0.1)
    assert list(destination.iterdir()) == []
    assert bench.measure(durable=False).bytes == SIZE


def test_the_price_run_waits_for_the_device(
    bench: TransferBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profiler.pull.measured.sync_file_system", lambda _: time.sleep(1))
    bench.apply(DEFAULTS)
    seen = bench.measure(durable=False, observe_price=True)
    assert seen.durable_s is not None and seen.durable_s > seen.return_s + 1


def test_a_deleted_destination_is_an_error(bench: TransferBench, destination: Path) -> None:
    bench.require_destination()
    destination.rmdir()
    with pytest.raises(PullError):
        bench.require_destination()
    destination.mkdir()


def tune(endpoint: str, destination: Path, output: Path, *words: str) -> int:
    source = f"s3://{BUCKET}/object"
    access = ["--endpoint-url", endpoint, "--output-dir", str(output)]
    return main(["transfer", "tune", source, str(destination), *access, *words])


@pytest.mark.parametrize("strategy", ["random", "bayes"])
def test_the_command_from_end_to_end(
    strategy: str, endpoint: str, destination: Path, tmp_path: Path, capsys
) -> None:
    """A start with one thread is significantly slower, so tuning must leave it."""
    words = ["--vary", "use_threads", "--transfer", "use_threads=false", "--strategy", strategy]
    for attempt in range(3):  # other tests may make the times vary
        output = tmp_path / f"out-{attempt}"
        assert tune(endpoint, destination, output, *words, "--budget", "10") == 0
        printed = capsys.readouterr().out
        if "set use_threads to true" in printed:
            break
    assert "set use_threads to true" in printed
    written = {path.name for path in output.iterdir()}
    assert written == {
        "writewise-results.json",
        "recommendation.json",
        "90-writewise.transfer.json",
        "90-writewise.transfer_config.py",
        "90-writewise.aws_config.sh",
    }
    found = parse_settings(str(output / "90-writewise.transfer.json"))
    assert found == TransferSettings()
    results = load(output / "writewise-results.json")
    roles = [trial.role for trial in results.trials]
    assert roles.count(RECHECK) >= 2 and roles.count(PRICE) >= 1
    assert list(destination.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--strategy gp", "invalid value 'gp'"),
        ("--vary speed", "unknown transfer setting 'speed'"),
        ("--transfer io_chunksize=1", "io_chunksize: use 1kB to 1GiB"),
    ],
)
def test_a_wrong_input_is_answered_with_one_sentence(
    words: str, problem: str, endpoint: str, destination: Path, tmp_path: Path, capsys
) -> None:
    try:
        code = tune(endpoint, destination, tmp_path / "out", *words.split())
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert problem in capsys.readouterr().err


def test_a_signal_keeps_what_was_measured_and_resume_goes_on(
    endpoint: str, destination: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "profiler.cli.main", "transfer", "tune"]
    command += [f"s3://{BUCKET}/object", str(destination), "--endpoint-url", endpoint]
    command += ["--strategy", "random", "--budget", "9", "--output-dir", str(tmp_path / "out")]
    results = tmp_path / "out" / "writewise-results.json"
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (results.exists() and load(results).trials):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM, err
    kept = load(results).trials
    assert kept and list(destination.iterdir()) == []
    assert subprocess.run([*command, "--resume"], cwd=REPOSITORY, timeout=60).returncode == 0
    assert load(results).trials[: len(kept)] == kept


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become somebody else")
def test_the_command_needs_no_root(endpoint: str, destination: Path) -> None:
    folder = destination
    os.chown(folder, 65534, 65534)
    source = f"s3://{BUCKET}/object"
    options = ["--endpoint-url", endpoint, "--budget", "8", "--output-dir", str(folder / "out")]
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable]
    command += ["-m", "profiler.cli.main", "transfer", "tune", source, str(folder), *options]
    done = subprocess.run(
        [*command, "--strategy", "random"],
        cwd=REPOSITORY,
        env={**os.environ, "HOME": str(folder), "WRITEWISE_STATE_DIRECTORY": f"{folder}/state"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Permission denied" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can take the lock of sweep")
def test_a_second_measurement_at_the_same_time_is_refused(
    endpoint: str, destination: Path, tmp_path: Path, capsys
) -> None:
    with Host.lasting(WRITER, "sweep of /data"):
        assert tune(endpoint, destination, tmp_path / "out") == 1
    assert "another writewise is running on this host: sweep of /data" in capsys.readouterr().err
