# SPDX-License-Identifier: Apache-2.0
"""The clients that mount: their arguments and life cycle, with a stand-in for `mount-s3`.

The stand-in bind-mounts a folder where the program would mount the bucket; S3 serves the same.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import by_name
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError
from profiler.pull.measured import measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from profiler.pull.workers import WorkerPool

CONTENT = {"a": os.urandom(3 * 2**20 + 1), "deep/er/b": b"small", "deep/empty": b""}
STAND_IN = """#!/bin/sh
echo "$@" >> "{log}"
for place; do :; done
mount --bind "{source}" "$place" && exec sleep 60
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    for key, content in CONTENT.items():
        path = tmp_path / "buckets" / "b" / "in" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with S3Server(tmp_path / "buckets", first_byte_latency_s=None, rate_bytes_per_s=None) as server:
        yield server


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the stand-in on PATH; return the log of its arguments."""
    log = tmp_path / "log"
    source = tmp_path / "buckets" / "b" / "in"
    put(tmp_path, STAND_IN.format(log=log, source=source), monkeypatch)
    return log


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return tmp_path / "state"


def put(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "programs"
    folder.mkdir(exist_ok=True)
    (folder / "mount-s3").write_text(script)
    (folder / "mount-s3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def pool_of(server: S3Server, name: str) -> WorkerPool:
    access = S3Access(server.endpoint_url, sign_requests=False)
    return WorkerPool(access, TransferSettings(io_chunksize=2**20), 1, by_name(name).make)


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize(
    ("name", "options"),
    [("mount-s3", ""), ("mount-s3-cache", r"--cache /proc/\d+/fd/\d+/cache ")],
)
def test_the_prefix_is_mounted_copied_and_gone(
    server: S3Server, log: Path, tmp_path: Path, state: Path, name: str, options: str
) -> None:
    destination, before = tmp_path / "destination", mounts()
    destination.mkdir()
    plan = list_plan(S3Access(server.endpoint_url, sign_requests=False), Location("b", "in"))
    with pool_of(server, name) as pool:
        measured = measure_pull(pool, plan, Destination(destination), None)
    assert measured.failures == ()
    for key, content in CONTENT.items():
        assert (destination / key).read_bytes() == content
    assert sorted(path.name for path in destination.iterdir()) == ["a", "deep"]
    assert mounts() == before
    told = log.read_text().strip()
    place = Path(told.rpartition(" ")[2])
    assert place == state / "mount" and list(place.iterdir()) == []
    wanted = (
        "--read-only --foreground --prefix=in/ "
        f"--endpoint-url {server.endpoint_url} --force-path-style --region us-east-1 "
        f"--no-sign-request b {place}"
    )
    assert re.fullmatch(options + re.escape(wanted), told)


def test_one_object_is_copied_alone(server: S3Server, log: Path, tmp_path: Path) -> None:
    destination = tmp_path / "destination"
    destination.mkdir()
    plan = list_plan(S3Access(server.endpoint_url, sign_requests=False), Location("b", "in/a"))
    with pool_of(server, "mount-s3") as pool:
        measure_pull(pool, plan, Destination(destination), None)
    assert [path.name for path in destination.iterdir()] == ["a"]
    assert "--prefix=in/ " in log.read_text()


def test_a_program_that_fails_is_told_by_its_last_line(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "#!/bin/sh\necho 'Error: no such bucket' >&2; exit 1\n", monkeypatch)
    destination = tmp_path / "destination"
    destination.mkdir()
    plan = list_plan(S3Access(server.endpoint_url, sign_requests=False), Location("b", "in"))
    failed = pytest.raises(PullError, match=r"mount-s3 failed \(exit 1\): Error: no such bucket")
    with pool_of(server, "mount-s3") as pool, failed:
        measure_pull(pool, plan, Destination(destination), None)
    assert list(destination.iterdir()) == []


def test_a_killed_worker_leaves_no_mount_and_no_program(
    server: S3Server, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mount has a FIFO: the worker is killed while it waits for the FIFO's bytes."""
    (tmp_path / "source").mkdir()
    os.mkfifo(tmp_path / "source" / "a")
    script = STAND_IN.replace("echo", "echo $$ > {pid}; echo")
    names = {"pid": tmp_path / "pid", "log": tmp_path / "log", "source": tmp_path / "source"}
    put(tmp_path, script.format(**names), monkeypatch)
    destination, before = tmp_path / "destination", mounts()
    destination.mkdir()
    plan = list_plan(S3Access(server.endpoint_url, sign_requests=False), Location("b", "in"))
    with pool_of(server, "mount-s3") as pool:
        (victim,) = pool.pids

        def kill_when_it_waits() -> None:
            writer = os.open(tmp_path / "source" / "a", os.O_WRONLY)  # waits for the reader
            os.kill(victim, signal.SIGKILL)
            os.close(writer)

        killer = threading.Thread(target=kill_when_it_waits)
        killer.start()
        with pytest.raises(PullError, match="was killed by SIGKILL"):
            measure_pull(pool, plan, Destination(destination), None)
        killer.join()
    pid = int((tmp_path / "pid").read_text())
    deadline_s = time.monotonic() + 2
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
    assert [path.name for path in state.rglob("*")] == ["mount"], "one for all, and empty"
    assert list(destination.iterdir()) == []
    assert mounts() == before
