# SPDX-License-Identifier: Apache-2.0
"""A first look at the whole host, while a writer waits for one known reason."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.lab import lab
from sysctl.host.host import Host
from tests.places import REPOSITORY
from tests.root import groups
from tests.root.hosts import is_emulated
from tests.root.labs import MIB, SMALL, guarded

RATE_BYTES_PER_S = (5 if is_emulated() else 50) * MIB
TIGHT = {"vm.dirty_bytes": 32 * MIB, "vm.dirty_background_bytes": 16 * MIB}
LOOK_S = 6
#: Writes until it is ended: to the page cache only, or with each write durable on return.
WRITER = """
import os, sys
path, is_synced = sys.argv[1], sys.argv[2] == "fsync"
block = bytes(4096 if is_synced else 1 << 20)
with open(path, "wb", buffering=0) as file:
    while True:
        file.seek(file.tell() % (128 << 20))
        file.write(block)
        if is_synced:
            os.fsync(file.fileno())
"""


def look(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profiler.cli.main", "profile", *options]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60 + LOOK_S, check=True
    )


@contextlib.contextmanager
def writing(volume: lab.Lab, mode: str) -> Iterator[None]:
    within_cap = groups.inside(Path(volume.cap.group)) if volume.cap.group else []
    file = Path(volume.destination) / mode
    words = [*within_cap, sys.executable, "-BS", "-c", WRITER, str(file), mode]
    with subprocess.Popen(words) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[lab.Lab]:
    with (
        guarded(tmp_path),
        lab.running(replace(SMALL, rate_bytes_per_s=RATE_BYTES_PER_S)) as present,
        Host.exclusive("look", "test") as host,
    ):
        host.set_writeback(TIGHT)
        yield present


def test_a_throttled_writer_is_write_back_with_its_volume_and_command(volume: lab.Lab) -> None:
    with writing(volume, "burst"):
        text = look("--duration", f"{LOOK_S}s").stdout
        document = json.loads(look("--duration", f"{LOOK_S}s", "--json").stdout)
    found = document["verdict"]
    assert found["answer"] == "write-back"
    # without copying and what other programs cost
    assert found["waited_ns"] > 0.5 * document["elapsed_ns"]
    assert found["volumes"][0]["name"] == volume.destination
    assert found["volumes"][0]["share"] > 0.9
    assert found["commands"][0]["name"].startswith("python")
    assert "Verdict: yes, it is write-back." in text
    next_line = next(line for line in text.splitlines() if line.startswith("Next: "))
    assert next_line.endswith(f"sweep s3://BUCKET/PREFIX {volume.destination}")
    assert len(text.splitlines()) < 20


def test_a_writer_that_waits_in_fsync_is_told_so(volume: lab.Lab) -> None:
    with writing(volume, "fsync"):
        document = json.loads(look("--duration", f"{LOOK_S}s", "--json").stdout)
    assert document["verdict"]["answer"] == "fsync"
    assert "it is fsync" in document["verdict"]["sentence"]


def test_a_host_on_which_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "few").write_bytes(bytes(MIB))
    found = json.loads(look("--duration", "1s", "--json").stdout)["verdict"]
    assert found["answer"] in ("nothing waited", "not writing")
    assert found["volumes"] == found["commands"] == []
