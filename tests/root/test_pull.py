# SPDX-License-Identifier: Apache-2.0
"""Pulls with real probes onto real file systems (full, read-only too), and the command itself."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf.session import ProfileSession
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError
from profiler.pull.measured import measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, list_plan
from profiler.pull.workers import WorkerPool
from profiler.watch.volumes import EbsVolumes
from tests.log_pages import page, sysfs_with
from tests.root.profiling import mounted

pytestmark = pytest.mark.side_by_side

MIB = 2**20
OBJECTS, SIZE_BYTES = 4, 12 * MIB + 5
#: Writes of 256 KiB: the first range of 8 MiB is 32 of them, the rest 16 and one of 5 bytes.
CHUNKS = 32 + 17


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    patch = pytest.MonkeyPatch()
    patch.setenv("AWS_ACCESS_KEY_ID", "test")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    root = tmp_path_factory.mktemp("root")
    (root / "b" / "in").mkdir(parents=True)
    for number in range(OBJECTS):
        (root / "b" / "in" / str(number)).write_bytes(os.urandom(SIZE_BYTES))
    with S3Server(root, first_byte_latency_s=0.005, rate_bytes_per_s=20 * MIB) as server:
        yield server
    patch.undo()


@pytest.fixture(scope="module")
def plan(server: S3Server) -> PullPlan:
    return list_plan(S3Access(server.endpoint_url), Location("b", "in"))


@pytest.fixture(scope="module")
def pool(server: S3Server, plan: PullPlan) -> Iterator[WorkerPool]:
    with WorkerPool(S3Access(server.endpoint_url), TransferSettings(), 2) as pool:
        yield pool


def writes_below(path: Path) -> Contract:
    measurements = (Measurement.COUNT, Measurement.BANDWIDTH)
    return Contract(
        10**9,
        tuple(
            Rule(kind.value, str(path), (CallType.WRITE,), SizeRange(), kind, 1)
            for kind in measurements
        ),
    )


def test_the_probes_count_every_write_of_a_pull_and_nothing_else(
    pool: WorkerPool, plan: PullPlan, tmp_path: Path
) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "tmpfs") as disk:
        with ProfileSession(writes_below(disk)) as session:
            first = measure_pull(pool, plan, Destination(disk), session, keep=False)
            second = measure_pull(pool, plan, Destination(disk), session)
        for measured in (first, second):
            assert measured.snapshot is not None
            stats = measured.snapshot.stats[0]
            assert stats.bytes == OBJECTS * SIZE_BYTES
            assert stats.count == OBJECTS * CHUNKS
            assert measured.snapshot.losses.total == 0
            assert measured.stalled_share == 0  # writes to memory are never throttled for a device
        assert sorted(path.name for path in disk.iterdir()) == ["0", "1", "2", "3"]


def pages_of_a_throttled_volume() -> Iterator[bytes]:
    for at in itertools.count():
        yield page(write_bytes=at * MIB, volume_throughput_exceeded_us=at * 500_000)


def refused_after(readings: int) -> Iterator[bytes]:
    yield from itertools.islice(pages_of_a_throttled_volume(), readings)
    raise OSError(errno.ENODEV, "No such device")


@pytest.mark.parametrize("readings", [None, 0, 1], ids=["all answered", "none", "only the first"])
def test_the_limits_of_an_ebs_volume_are_read_around_a_pull(
    pool: WorkerPool, plan: PullPlan, tmp_path: Path, readings: int | None
) -> None:
    """The pull is the same, whatever comes of the readings."""
    answers = pages_of_a_throttled_volume() if readings is None else refused_after(readings)
    volumes = EbsVolumes(
        ["nvme1n1"],
        sysfs_with(tmp_path / "sysfs"),
        lambda disk: os.open(os.devnull, os.O_RDONLY),
        lambda descriptor: next(answers),
    )
    probes = ProfileSession(writes_below(tmp_path / "disk"))
    with mounted(tmp_path / "disk", "-t", "tmpfs", "tmpfs") as disk, volumes, probes as session:
        measured = measure_pull(pool, plan, Destination(disk), session, volumes=volumes)
    assert measured.failures == ()
    assert measured.snapshot is not None
    assert measured.snapshot.stats[0].count == OBJECTS * CHUNKS
    over = measured.over_limit
    if readings is None:
        assert over is not None
        assert over.volume_throughput_s >= 0.5
        assert over.observed_s >= measured.return_s
        assert measured.over_limit_problem is None
    else:
        assert over is None
        assert "the log page cannot be read (No such device)" in str(measured.over_limit_problem)


def test_between_pulls_the_destination_can_be_unmounted(
    pool: WorkerPool, plan: PullPlan, tmp_path: Path
) -> None:
    for _ in range(2):
        with mounted(tmp_path / "disk", "-t", "tmpfs", "tmpfs") as disk:
            measured = measure_pull(pool, plan, Destination(disk), None)
            assert measured.failures == ()


def test_a_plan_larger_than_the_destination_is_refused(
    pool: WorkerPool, plan: PullPlan, tmp_path: Path
) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=40m", "tmpfs") as disk:
        with pytest.raises(PullError, match=r"has 48\.0 MiB, but .* has only 40\.0 MiB free"):
            measure_pull(pool, plan, Destination(disk), None)
        assert list(disk.iterdir()) == []


def test_a_destination_that_fills_up_meanwhile_is_one_sentence(
    pool: WorkerPool, plan: PullPlan, tmp_path: Path
) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=60m", "tmpfs") as disk:
        other = disk / "other"

        def fill(phase: object, progress: object) -> None:
            with contextlib.suppress(OSError):  # the pull may already have filled it further
                if not other.exists():
                    other.write_bytes(bytes(40 * MIB))

        with pytest.raises(PullError) as full:
            measure_pull(pool, plan, Destination(disk), None, on_phase=fill)
        assert full.value.message.startswith("in/")
        assert full.value.message.endswith("failed: No space left on device")
        assert [path.name for path in disk.iterdir()] == ["other"]


def test_a_read_only_destination_is_refused(
    pool: WorkerPool, plan: PullPlan, tmp_path: Path
) -> None:
    refused = pytest.raises(PullError, match="is on a read-only file system")
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "ro", "tmpfs") as disk, refused:
        measure_pull(pool, plan, Destination(disk), None)


def writewise(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "profiler.cli.main", *map(str, arguments)]


def test_the_command_prints_a_document(server: S3Server, tmp_path: Path) -> None:
    command = writewise("pull", "s3://b/in", tmp_path, "--endpoint-url", server.endpoint_url)
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["objects"] == OBJECTS
    assert document["verified_by_method"] == {"CRC-64/NVME": OBJECTS}
    assert 0 < document["return_s"] <= document["durable_s"]
    by_measure = {finding["measurement"]: finding for finding in document["findings"]}
    assert by_measure["bandwidth"]["value"] == OBJECTS * SIZE_BYTES


def test_the_command_prints_for_reading(server: S3Server, tmp_path: Path) -> None:
    command = writewise("pull", "s3://b/in", tmp_path, "--endpoint-url", server.endpoint_url)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for line in ("4 objects, 48.0 MiB", "time to return", "time to durable", "writers waited"):
        assert line in done.stdout
    assert "4 objects by size and CRC-64/NVME" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("s3://none/x",), 1, "bucket none does not exist"),
        (("s3://b/none",), 1, "s3://b/none has no objects"),
        (("b/in",), 2, "invalid S3 address 'b/in'"),
        (("s3://b/in", "--transfer", "x=1"), 2, "--transfer: unknown transfer setting 'x'"),
    ],
)
def test_a_mistake_is_one_sentence(
    server: S3Server, tmp_path: Path, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    source, *options = arguments
    command = writewise("pull", source, tmp_path, "--endpoint-url", server.endpoint_url, *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == exit_code
    assert done.stderr.startswith(f"writewise: {message}")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_and_leaves_nothing(
    server: S3Server, tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    command = writewise("pull", "s3://b/in", tmp_path, "--endpoint-url", server.endpoint_url)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline_s = time.monotonic() + 30
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        started_s = time.monotonic()
        _, errors = process.communicate(timeout=30)
    assert time.monotonic() - started_s < 2
    assert process.returncode == exit_code
    assert b"Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_an_empty_destination_is_refused(server: S3Server, tmp_path: Path) -> None:
    command = writewise("pull", "s3://b/in", "", "--endpoint-url", server.endpoint_url)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert "DEST: the path is empty; the current directory is ." in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_current_directory_that_is_gone_is_no_traceback(server: S3Server, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    program = Path(sys.executable).with_name("writewise")
    line = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    command: list[str | Path] = [
        program,
        "pull",
        "s3://b/in",
        tmp_path / "to",
        "--endpoint-url",
        server.endpoint_url,
    ]
    done = subprocess.run(
        ["sh", "-c", line, "sh", tempfile.mkdtemp(dir=tmp_path), *command],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    if done.returncode != 0:  # libbcc compiles in the current directory
        assert done.stderr.startswith("writewise: the probes could not be loaded: ")


def test_modules_in_the_current_directory_are_not_run(server: S3Server, tmp_path: Path) -> None:
    here, sprung, to = tmp_path / "here", tmp_path / "sprung", tmp_path / "to"
    to.mkdir()
    for name in ("multiprocessing.py", "bcc.py", "boto3.py", "profiler/__init__.py"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(f"open({str(sprung)!r}, 'a').write(__file__)")
    program = Path(sys.executable).with_name("writewise")
    command: list[str | Path] = [
        program,
        "pull",
        "s3://b/in",
        to,
        "--endpoint-url",
        server.endpoint_url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=here)
    assert done.returncode == 0, done.stderr
    assert not sprung.exists()
    assert len(list(to.iterdir())) == OBJECTS


def test_too_many_workers_are_refused(server: S3Server, tmp_path: Path) -> None:
    command = writewise("pull", "s3://b/in", tmp_path, "--endpoint-url", server.endpoint_url)
    done = subprocess.run([*command, "--workers", "5000"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("writewise: 5000 workers are out of range\n  → use --workers 1")
