# SPDX-License-Identifier: Apache-2.0
"""A pull's processes run nothing from the current directory, which others may write."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.shared.errors import UsageError
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError
from profiler.pull.measured import measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import BUCKET, pool_for

#: What the spawned interpreters import first, and the package itself.
PLANTED = ("multiprocessing.py", "runpy.py", "os.py", "sitecustomize.py", "profiler/__init__.py")
TRAP = "open({!r}, 'a').write(__file__)\n"


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Fill the current directory with modules that record in a file that they were run."""
    folder, sprung = tmp_path / "here", tmp_path / "sprung"
    for name in PLANTED:
        planted = folder / name
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.write_text(TRAP.format(str(sprung)))
    monkeypatch.chdir(folder)
    yield sprung


def test_nothing_in_the_current_directory_is_run(
    trap: Path, tmp_path: Path, destination: Path
) -> None:
    (tmp_path / BUCKET).mkdir()
    (tmp_path / BUCKET / "one").write_bytes(b"x")
    here = Path.cwd()
    with S3Server(tmp_path, rate_bytes_per_s=None) as server:
        plan = list_plan(S3Access(server.endpoint_url), Location(BUCKET, ""))
        with pool_for(server.endpoint_url, workers=1, spawned=True) as pool:
            directories = [os.readlink(f"/proc/{pid}/cwd") for pid in pool.pids]
            measured = measure_pull(pool, plan, Destination(destination), None)
    assert not trap.exists(), trap.read_text()
    assert measured.result.objects == 1
    assert directories == ["/"]
    assert Path.cwd() == here


@pytest.mark.parametrize("count", [0, -1, 1025])
def test_a_count_of_workers_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match="workers are out of range") as refused:
        WorkerPool(S3Access(), TransferSettings(), count)
    assert "1 to 1024" in refused.value.hint


def test_more_workers_than_the_limit_of_open_files_allows_is_one_sentence() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    pool = WorkerPool(S3Access("http://127.0.0.1:9"), TransferSettings(), 20)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, before[1]))
    try:
        with pytest.raises(PullError, match="20 worker processes cannot be started: Too many open"):
            pool.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert pool.pids == ()


def test_a_pull_works_in_a_deleted_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, destination: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with (
        pool_for("http://127.0.0.1:9", workers=1, spawned=True) as pool,
        Destination(destination).open(),
    ):
        assert len(pool.pids) == 1
    refused = pytest.raises(PullError, match="the destination here cannot be used: No such file")
    with refused, Destination(Path("here")).open():
        pytest.fail("it was opened")
