# SPDX-License-Identifier: Apache-2.0
"""Bytes that reach files without a write call: io_uring, AIO, copies within the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf.btf import Btf
from profiler.bpf.session import ProfileSession, ProfileSnapshot
from tests.root import load
from tests.root.hosts import cannot_run_here
from tests.root.profiling import run

pytestmark = pytest.mark.side_by_side

REQUESTS, SIZE_BYTES = 50, 1000
COPIES = """
import os, sys
source, target, way = sys.argv[1:]
one = os.open(source, os.O_RDONLY)
other = os.open(target, os.O_WRONLY | os.O_CREAT, 0o600)
for _ in range(50):
    os.lseek(one, 0, os.SEEK_SET)
    if way == "copy_file_range":
        assert os.copy_file_range(one, other, 1000) == 1000
    if way == "sendfile":
        assert os.sendfile(other, one, 0, 1000) == 1000
    if way == "splice":
        reader, writer = os.pipe()
        os.write(writer, bytes(1000))
        libc = __import__("ctypes").CDLL(None)
        assert libc.splice(reader, None, other, None, 1000, 0) == 1000
        os.close(reader)
        os.close(writer)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not load.compiler():
        pytest.skip("no C compiler; make test installs one")
    source = Path(__file__).with_name("uring.c")
    return load.build(tmp_path_factory.mktemp("uring"), source)


def count(call_type: CallType, *paths: Path) -> Contract:
    return Contract(
        10**9,
        tuple(
            Rule(f"rule{n}", str(path), (call_type,), SizeRange(), Measurement.COUNT, 1)
            for n, path in enumerate(paths)
        ),
    )


def seen(program: Path, way: str, call_type: CallType, below: Path) -> ProfileSnapshot:
    """Return what the rules of `/`, the file's folder and another folder counted."""
    (below / "here").mkdir()
    (below / "elsewhere").mkdir()
    rules = count(call_type, Path("/"), below / "here", below / "elsewhere")
    file = below / "here" / "file"
    file.write_bytes(bytes(SIZE_BYTES))
    with ProfileSession(rules) as session:
        run(session, program, way, file, REQUESTS, SIZE_BYTES)
        snapshot, sees_uring = session.snapshot(), session.sees_uring
    if way != "aio" and not sees_uring:
        assert [stats.count for stats in snapshot.stats] == [0, 0, 0]
        cannot_run_here("its kernel does not report requests to io_uring (before Linux 6.3)")
    return snapshot


def test_requests_are_seen_where_the_kernel_reports_them(tmp_path: Path) -> None:
    """The tracepoint of that name came with Linux 6.3."""
    here = Btf.of_kernel().has_structure("trace_event_raw_io_uring_submit_req")
    with ProfileSession(count(CallType.WRITE, tmp_path)) as session:
        assert session.sees_uring == here


@pytest.mark.parametrize("way", ["plain", "vector", "splice", "polled"])
def test_writes_through_io_uring_are_counted(way: str, program: Path, tmp_path: Path) -> None:
    snapshot = seen(program, way, CallType.WRITE, tmp_path)
    everything, here, elsewhere = snapshot.stats
    assert (here.count, here.bytes) == (REQUESTS, REQUESTS * SIZE_BYTES)
    assert everything == here
    assert (elsewhere.count, elsewhere.failed) == (0, 0)
    assert (snapshot.losses.total, snapshot.in_flight) == (0, 0)
    assert here.asynchronous_ns == here.latency_total_ns > 0


def test_vectors_in_registered_buffers_are_counted(program: Path, tmp_path: Path) -> None:
    tried = subprocess.run([program, "fixed", tmp_path / "tried", "1", "1"])
    if tried.returncode == 77:
        pytest.xfail("this kernel has no such request (before Linux 6.15)")
    here = seen(program, "fixed", CallType.WRITE, tmp_path).stats[1]
    assert (here.count, here.bytes) == (REQUESTS, REQUESTS * SIZE_BYTES)


def test_requests_that_end_in_silence_are_told(program: Path, tmp_path: Path) -> None:
    snapshot = seen(program, "silent", CallType.WRITE, tmp_path)
    assert [stats.count for stats in snapshot.stats] == [0, 0, 0]
    assert snapshot.losses.uring_ends_unseen == snapshot.losses.total == REQUESTS


def test_requests_whose_completions_found_no_room_are_told(program: Path, tmp_path: Path) -> None:
    """The queue of 16 completions is full, since nobody takes them."""
    snapshot = seen(program, "crowded", CallType.WRITE, tmp_path)
    here, unseen = snapshot.stats[1], snapshot.losses.uring_ends_unseen
    assert here.count == 16
    assert unseen == snapshot.losses.total == REQUESTS - 16
    assert snapshot.in_flight <= unseen


def test_reads_and_syncs_too(program: Path, tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    (tmp_path / "sync").mkdir()
    read = seen(program, "read", CallType.READ, tmp_path / "read").stats[1]
    assert (read.count, read.bytes) == (REQUESTS, REQUESTS * SIZE_BYTES)
    sync = seen(program, "sync", CallType.FSYNC, tmp_path / "sync").stats[1]
    assert (sync.count, sync.bytes) == (REQUESTS, 0)


def test_requests_that_fail_are_counted_apart(program: Path, tmp_path: Path) -> None:
    here = seen(program, "bad", CallType.WRITE, tmp_path).stats[1]
    assert (here.count, here.failed) == (0, REQUESTS)


def test_a_registered_file_is_known_to_the_root_alone(program: Path, tmp_path: Path) -> None:
    snapshot = seen(program, "registered", CallType.WRITE, tmp_path)
    assert [stats.count for stats in snapshot.stats] == [REQUESTS, 0, 0]
    assert snapshot.losses.paths_not_read == snapshot.losses.total == REQUESTS


def test_aio_is_told_as_not_counted(program: Path, tmp_path: Path) -> None:
    snapshot = seen(program, "aio", CallType.WRITE, tmp_path)
    assert [stats.count for stats in snapshot.stats] == [0, 0, 0]
    assert snapshot.losses.aio_requests == snapshot.losses.total == REQUESTS


@pytest.mark.parametrize("way", ["copy_file_range", "sendfile", "splice"])
def test_copies_within_the_kernel_are_writes_to_their_target(way: str, tmp_path: Path) -> None:
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    source = tmp_path / "from" / "file"
    source.write_bytes(os.urandom(1000))
    rules = count(CallType.WRITE, tmp_path / "to", tmp_path / "from")
    with ProfileSession(rules) as session:
        command = [sys.executable, "-BSc", COPIES, source, tmp_path / "to" / "file", way]
        run(session, *command)
        target, origin = session.snapshot().stats
    assert (target.count, target.bytes) == (50, 50_000)
    assert (origin.count, origin.failed) == (0, 0)


def test_bytes_that_reach_no_disk_are_told_apart(tmp_path: Path) -> None:
    """For tmpfs and character devices; a block device is a disk, wherever its node is."""
    memory = Path("/dev/shm")
    script = "for file; do dd if=/dev/zero of=$file bs=1000 count=5 status=none; done"
    rules = count(CallType.WRITE, Path("/"))
    here, there = tmp_path / "file", memory / f"writewise-test-{os.getpid()}"
    try:
        with ProfileSession(rules) as session:
            run(session, "sh", "-c", script, "-", here, there, "/dev/null")
            (stats,) = session.snapshot().stats
    finally:
        there.unlink(missing_ok=True)
    assert (stats.bytes, stats.unbacked_bytes) == (15_000, 10_000)
