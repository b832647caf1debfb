# SPDX-License-Identifier: Apache-2.0
"""Credentials stay where they are needed: in the pull's processes, not in output or files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from profiler.lab.s3_server import S3Server
from tests.places import REPOSITORY
from tests.root.labs import volume, wait_until_nobody_writes

MIB = 2**20
MARKERS = {
    "AWS_ACCESS_KEY_ID": "AKIAMARKERMARKER0001",
    "AWS_SECRET_ACCESS_KEY": "marker-of-a-secret-key",
    "AWS_SESSION_TOKEN": "marker-of-a-session-token",
}
BUCKET = "bucket"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch) -> Iterator[dict[str, str]]:
    """Put credentials in the environment, which all programs started here inherit."""
    variables = {
        **MARKERS,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_DEFAULT_REGION": "us-east-1",
        "WRITEWISE_STATE_DIRECTORY": str(tmp_path / "state"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    yield {**os.environ}


@pytest.fixture
def endpoint_url(tmp_path: Path, environment) -> Iterator[str]:
    """A slow server, so that the test can inspect the processes of a pull."""
    (tmp_path / "objects" / BUCKET).mkdir(parents=True)
    for name in ("one", "two"):
        (tmp_path / "objects" / BUCKET / name).write_bytes(os.urandom(2 * MIB))
    with S3Server(tmp_path / "objects", rate_bytes_per_s=2 * MIB) as server:
        assert not holds_marker(f"/proc/{server.pid}/environ")
        yield server.endpoint_url


def holds_marker(path: str | Path) -> bool:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return any(marker.encode() in content for marker in MARKERS.values())


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


def run_and_look(
    folder: Path, *arguments: object, expected: tuple[int, ...] = (0,)
) -> tuple[str, list[str]]:
    """Run a command; return its output and the arguments of its processes with credentials.

    While it runs no process of the host may show a credential in its arguments (`ps`).
    """
    command = [sys.executable, "-m", "profiler.cli.main", *map(str, arguments)]
    said = folder / "said"
    holders = set()
    with said.open("wb") as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=output, stderr=output)
        while process.poll() is None:
            assert [p for p in Path("/proc").glob("[0-9]*/cmdline") if holds_marker(p)] == []
            for child in psutil.Process(process.pid).children(recursive=True):
                if holds_marker(f"/proc/{child.pid}/environ"):
                    holders.add(words_of(child.pid))
            holders.discard(words_of(process.pid))  # a child before its exec
            time.sleep(0.05)
    assert process.returncode in expected, said.read_text()
    return said.read_text(), sorted(holders - {""})


def assert_nowhere_in_files(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if holds_marker(path)] == []


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_of_a_pull_only_the_workers_have_them(tmp_path, endpoint_url, form) -> None:
    folder = tmp_path / "out"
    (folder / "data").mkdir(parents=True)
    said, holders = run_and_look(
        folder, "pull", f"s3://{BUCKET}", folder / "data", "--endpoint-url", endpoint_url, *form
    )
    assert "4.00 MiB" in said or str(4 * MIB) in said
    assert holders  # they were seen
    assert all("spawn_main" in words for words in holders), holders
    assert_nowhere_in_files(folder)


def test_of_a_failed_pull_nothing_tells_them(tmp_path, endpoint_url) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "profiler.cli.main", "pull", "s3://no-such-bucket/x"),
            *(str(tmp_path), "--endpoint-url", endpoint_url),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert not any(marker in done.stdout + done.stderr for marker in MARKERS.values())


def test_of_a_profile_only_the_command_has_them(tmp_path, environment) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    arguments = ["--json", "--output", folder / "report", "--log", folder / "log"]
    command = ["sh", "-c", "echo x >/dev/null; sleep 1"]
    _, holders = run_and_look(folder, "profile", *arguments, "--", *command)
    assert {words.split()[0] for words in holders} <= {"sh", "sleep"}
    assert_nowhere_in_files(folder)


def test_of_a_sweep_nothing_tells_them(tmp_path, endpoint_url) -> None:
    """The sweep is of a knob of a test disk, so it writes no sysctl.

    Writes of other programs may make its pulls invalid. They have run by then, but the sweep keeps
    no results file if no pull was valid.
    """
    out = tmp_path / "out"
    out.mkdir()
    with volume(tmp_path / "volume", "ext4") as destination:
        wait_until_nobody_writes()
        said, holders = run_and_look(
            out,
            *("sweep", f"s3://{BUCKET}", destination, "--endpoint-url", endpoint_url),
            *("--output", out / "results.json", "--read-ahead-kb", "64,256", "--budget", "8"),
            expected=(0, 1),
        )
    assert "About 7 trials" in said
    assert holders
    assert all("spawn_main" in words for words in holders), holders
    is_disturbed = "no valid pull" in said
    assert {path.name for path in out.iterdir()} == {"said"} | (
        set() if is_disturbed else {"results.json"}
    )
    assert_nowhere_in_files(tmp_path)
