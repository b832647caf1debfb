# SPDX-License-Identifier: Apache-2.0
"""The worker processes: what remains when they, their parent or the user stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from profiler.lab.s3_protocol import PACE_S
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError, PullStoppedError
from profiler.pull.measured import measure_pull
from profiler.pull.result import Progress
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, list_plan
from profiler.pull.worker_processes import WorkerDiedError
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import BUCKET, MIB, pool_for

OBJECTS = 6
SIZE_BYTES = 6 * MIB
RATE_BYTES_PER_S = 3_700_000  # of each connection


@pytest.fixture(scope="module")
def slow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Each object takes 1.7 s, all at the same time: long enough to be interrupted."""
    root = tmp_path_factory.mktemp("buckets")
    (root / BUCKET / "in").mkdir(parents=True)
    for number in range(OBJECTS):
        (root / BUCKET / "in" / f"{number}").write_bytes(os.urandom(SIZE_BYTES))
    with S3Server(root, first_byte_latency_s=0.005, rate_bytes_per_s=RATE_BYTES_PER_S) as server:
        yield server


@pytest.fixture(scope="module")
def plan(slow_server: S3Server) -> PullPlan:
    return list_plan(S3Access(slow_server.endpoint_url), Location(BUCKET, ""))


@pytest.fixture(scope="module")
def pool(slow_server: S3Server) -> Iterator[WorkerPool]:
    with pool_for(slow_server.endpoint_url, spawned=True) as pool:
        yield pool


def when_half_done(act: Callable[[], None]) -> Callable[[object, Progress | None], None]:
    """Call `act` once, when a part of the objects has arrived."""
    pending = [act]

    def show(phase: object, progress: Progress | None) -> None:
        if pending and progress is not None and progress.bytes > MIB:
            pending.pop()()

    return show


def test_progress_counts_every_byte_and_object_once(
    pool: WorkerPool, plan: PullPlan, destination: Path
) -> None:
    seen: list[Progress] = []
    with Destination(destination).stage(plan) as staging:
        result = pool.run(staging, seen.append)
    assert seen[-1].bytes == seen[-1].total_bytes == OBJECTS * SIZE_BYTES == result.bytes
    assert seen[-1].objects == seen[-1].total_objects == OBJECTS
    assert [progress.bytes for progress in seen] == sorted(progress.bytes for progress in seen)
    assert len(seen) > 5
    # The server pauses after each piece of a body, so the last piece comes one pause early.
    unpaced_bytes = max(65536, int(RATE_BYTES_PER_S * PACE_S))
    assert result.return_s > (SIZE_BYTES - unpaced_bytes) / RATE_BYTES_PER_S


def test_no_partial_file_has_a_final_name_at_any_instant(
    pool: WorkerPool, plan: PullPlan, destination: Path
) -> None:
    wrong: list[tuple[str, int]] = []
    done = threading.Event()
    looks: list[None] = []

    def watch() -> None:
        while not done.is_set():
            looks.append(None)
            for entry in os.scandir(destination / "in"):
                has_final_name = not entry.name.startswith(".writewise-")
                if has_final_name and entry.stat().st_size != SIZE_BYTES:
                    wrong.append((entry.name, entry.stat().st_size))

    (destination / "in").mkdir()
    (destination / "in" / "0").write_bytes(b"o" * SIZE_BYTES)  # stays complete until it is replaced
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        measure_pull(pool, plan, Destination(destination), None)
    finally:
        done.set()
        watcher.join()
    assert len(looks) > 1000
    assert wrong == []
    assert sorted(path.name for path in (destination / "in").iterdir()) == list("012345")


def test_between_runs_no_worker_holds_the_destination(
    pool: WorkerPool, plan: PullPlan, destination: Path
) -> None:
    measure_pull(pool, plan, Destination(destination), None, keep=False)
    held = [
        os.readlink(link)
        for pid in (*pool.pids, os.getpid())
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink()
    ]
    assert len(pool.pids) == 2
    assert not [path for path in held if path.startswith(str(destination))]


def test_a_killed_worker_is_an_error_and_the_next_run_works(
    slow_server: S3Server, plan: PullPlan, destination: Path
) -> None:
    with pool_for(slow_server.endpoint_url, spawned=True) as pool:
        victim = pool.pids[0]
        with pytest.raises(WorkerDiedError, match="was killed by SIGKILL"):
            measure_pull(
                *(pool, plan, Destination(destination), None),
                on_phase=when_half_done(lambda: os.kill(victim, signal.SIGKILL)),
            )
        assert list(destination.iterdir()) == []
        measured = measure_pull(pool, plan, Destination(destination), None)
        assert victim not in pool.pids
    assert measured.result.objects == OBJECTS


def test_an_interrupt_ends_the_workers_within_a_second_and_leaves_nothing(
    slow_server: S3Server, plan: PullPlan, destination: Path
) -> None:
    interrupted_s: list[float] = []

    def interrupt() -> None:
        interrupted_s.append(time.monotonic())
        raise KeyboardInterrupt

    with pool_for(slow_server.endpoint_url, spawned=True) as pool:
        pids = pool.pids
        with pytest.raises(KeyboardInterrupt):
            measure_pull(
                *(pool, plan, Destination(destination), None),
                on_phase=when_half_done(interrupt),
            )
        assert time.monotonic() - interrupted_s[0] < 1
        assert not [pid for pid in pids if is_running(pid)]
    assert list(destination.iterdir()) == []


@pytest.mark.parametrize("stop_after_s", [0.0, 0.5, 1.2])
def test_a_pull_is_stopped_within_a_second_and_its_workers_live_on(
    slow_server: S3Server, plan: PullPlan, destination: Path, stop_after_s: float
) -> None:
    with pool_for(slow_server.endpoint_url, spawned=True) as pool:
        pids = pool.pids
        began_s = time.monotonic()
        with pytest.raises(PullStoppedError, match="stopped after"):
            measure_pull(pool, plan, Destination(destination), None, stop_after_s=stop_after_s)
        assert time.monotonic() - began_s < stop_after_s + 1
        assert list(destination.iterdir()) == []
        assert pool.pids == pids
        measured = measure_pull(pool, plan, Destination(destination), None)
        assert pool.pids == pids
    assert measured.result.objects == OBJECTS
    assert measured.failures == ()


def test_a_worker_with_many_small_objects_is_stopped_too(destination: Path, tmp_path: Path) -> None:
    """Its answers come faster than the check of the deadline; all take a second or longer."""
    (tmp_path / BUCKET / "in").mkdir(parents=True)
    for number in range(1000):
        (tmp_path / BUCKET / "in" / f"{number}").write_bytes(b"x")
    with S3Server(tmp_path, first_byte_latency_s=0.01, rate_bytes_per_s=None) as server:
        plan = list_plan(S3Access(server.endpoint_url), Location(BUCKET, ""))
        with pool_for(server.endpoint_url, workers=1, spawned=True) as pool:
            began_s = time.monotonic()
            with pytest.raises(PullStoppedError):
                measure_pull(pool, plan, Destination(destination), None, stop_after_s=0.3)
            assert time.monotonic() - began_s < 1.3
    assert list(destination.iterdir()) == []


def test_a_pull_that_is_in_time_is_not_stopped(
    pool: WorkerPool, plan: PullPlan, destination: Path
) -> None:
    measured = measure_pull(pool, plan, Destination(destination), None, stop_after_s=60.0)
    assert measured.result.objects == OBJECTS


def test_workers_that_hang_are_ended_when_the_pull_is_stopped(
    plan: PullPlan, destination: Path, tmp_path: Path
) -> None:
    """The server takes 30 s to its first byte: no worker notices the request to stop."""
    (tmp_path / BUCKET / "in").mkdir(parents=True)
    for number in range(OBJECTS):
        (tmp_path / BUCKET / "in" / f"{number}").write_bytes(b"x" * SIZE_BYTES)
    with (
        S3Server(tmp_path, first_byte_latency_s=30.0, rate_bytes_per_s=None) as server,
        pool_for(server.endpoint_url, spawned=True) as pool,
    ):
        pids, began_s = pool.pids, time.monotonic()
        with pytest.raises(PullStoppedError):
            measure_pull(pool, plan, Destination(destination), None, stop_after_s=0.3)
        assert time.monotonic() - began_s < 1.5
        assert not [pid for pid in pids if is_running(pid)]
        assert list(destination.iterdir()) == []
        pool.start()
        assert len(pool.pids) == 2


CHILD = """
import sys
from pathlib import Path
from profiler.pull.measured import measure_pull
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from profiler.pull.workers import WorkerPool

def main():
    access = S3Access(sys.argv[1])
    plan = list_plan(access, Location(sys.argv[2], ""))
    with WorkerPool(access, TransferSettings(), 2) as pool:
        show = lambda phase, progress: print(*pool.pids, flush=True)
        measure_pull(pool, plan, Destination(Path(sys.argv[3])), None, on_phase=show)

if __name__ == "__main__":
    main()
"""


def child(server: S3Server, destination: Path, tmp_path: Path) -> subprocess.Popen[bytes]:
    """Start another pull of all objects to `destination` in a process."""
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    process = subprocess.Popen(
        [sys.executable, script, server.endpoint_url, BUCKET, destination],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
    )
    deadline_s = time.monotonic() + 20
    while not list(destination.rglob(".*")) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_do_not_outlive_their_parent(
    slow_server: S3Server, destination: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with child(slow_server, destination, tmp_path) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(number)
    assert len(pids) == 2
    deadline_s = time.monotonic() + 1
    while any(map(is_running, pids)) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not [pid for pid in pids if is_running(pid)]
    if number == signal.SIGINT:
        assert list(destination.iterdir()) == []


def test_two_pulls_to_one_destination_do_not_disturb_each_other(
    slow_server: S3Server, pool: WorkerPool, plan: PullPlan, destination: Path, tmp_path: Path
) -> None:
    with child(slow_server, destination, tmp_path) as other:
        assert list(destination.rglob(".*.part*"))
        ours = measure_pull(pool, plan, Destination(destination), None)
        other.communicate()
    assert other.returncode == 0
    assert ours.failures == ()
    assert {path.stat().st_size for path in (destination / "in").iterdir()} == {SIZE_BYTES}
    assert sorted(path.name for path in (destination / "in").iterdir()) == list("012345")


def test_leftovers_of_a_killed_pull_are_removed_by_the_next(
    slow_server: S3Server, pool: WorkerPool, plan: PullPlan, destination: Path, tmp_path: Path
) -> None:
    with child(slow_server, destination, tmp_path) as other:
        other.kill()
    assert list(destination.rglob(".*.part*"))
    measure_pull(pool, plan, Destination(destination), None)
    assert sorted(path.name for path in (destination / "in").iterdir()) == list("012345")


def test_a_client_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    pool = WorkerPool(S3Access("http://127.0.0.1:9"), TransferSettings(), 1)
    with pytest.raises(PullError, match="there is no AWS profile no-such-profile"):
        pool.start()
    assert pool.pids == ()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"
