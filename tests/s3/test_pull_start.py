"""What starts a pull's processes: nothing of the current directory, which others may write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.lab.s3_server import S3Server
from profiler.measured_pull import measure_pull
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.source import Location, list_plan
from tests.s3.conftest import BUCKET, pool_for

#: What the spawned interpreters import first, and the package itself.
PLANTED = ("multiprocessing.py", "runpy.py", "os.py", "sitecustomize.py", "profiler/__init__.py")
TRAP = "open({!r}, 'a').write(__file__)\n"


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory holds modules that tell of being run, in the file that is given."""
    folder, sprung = tmp_path / "here", tmp_path / "sprung"
    for name in PLANTED:
        planted = folder / name
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.write_text(TRAP.format(str(sprung)))
    monkeypatch.chdir(folder)
    yield sprung


def test_nothing_of_the_current_directory_is_run(
    trap: Path, tmp_path: Path, destination: Path
) -> None:
    (tmp_path / BUCKET).mkdir()
    (tmp_path / BUCKET / "one").write_bytes(b"x")
    here = Path.cwd()
    with S3Server(tmp_path, rate_bytes_per_s=None) as server:
        plan = list_plan(S3Access(server.endpoint_url), Location(BUCKET, ""))
        with pool_for(server.endpoint_url, workers=1) as pool:
            directories = [os.readlink(f"/proc/{pid}/cwd") for pid in pool.pids]
            measured = measure_pull(pool, plan, Destination(destination), None)
    assert not trap.exists(), trap.read_text()
    assert measured.result.objects == 1
    assert directories == ["/"]
    assert Path.cwd() == here
