# SPDX-License-Identifier: Apache-2.0
"""A neighbour of a pull against a real folder: its calls, its end, and what it says of failures."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from profiler.price import neighbour as program
from profiler.price import process
from profiler.price.neighbour import BLOCK_BYTES, FSYNC, READ
from profiler.price.process import Neighbour, parse_answer
from sysctl.host.system import System
from tests.places import REPOSITORY

TICK_NS = 20_000_000
MS = 10**6


def is_there(pid):
    return System().process_start_ticks(pid) is not None


def gone_within(pid, seconds):
    deadline_s = time.monotonic() + seconds
    while is_there(pid) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return not is_there(pid)


def has_answered(neighbour, at_least):
    """Wait for this many answers, because the time to start a process is not tested."""
    for _ in range(500):
        if neighbour.answered_bytes >= at_least:
            return True
        time.sleep(0.02)
    return False


def test_it_appends_4_kib_and_waits_for_fsync_each_tick(tmp_path):
    with Neighbour(tmp_path, interval_ns=TICK_NS) as neighbour, neighbour.running():
        assert has_answered(neighbour, 500)
    latency = neighbour.fsync.latency()
    assert latency.count >= 5
    assert 0 < latency.median_s <= latency.worst_s < 10
    (appended,) = tmp_path.glob("*-fsync")
    assert appended.stat().st_size == (1 + latency.count) * BLOCK_BYTES
    assert neighbour.dirtied_bytes == latency.count * BLOCK_BYTES


def test_it_reads_past_the_page_cache_or_says_why_not(tmp_path):
    with Neighbour(tmp_path, interval_ns=TICK_NS) as neighbour, neighbour.running():
        assert has_answered(neighbour, 500)
    if neighbour.read.latency() is None:
        assert neighbour.problem == "reads were not timed: the file system refuses O_DIRECT"
    else:
        assert neighbour.read.latency().count >= 3
        assert neighbour.problem is None
        (read,) = tmp_path.glob("*-reads")
        assert read.stat().st_size == process.READ_FILE_BYTES


def test_its_files_are_unreadable_for_others_and_have_random_names(tmp_path):
    names = []
    for _ in range(2):
        with Neighbour(tmp_path):
            pass
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        names.append(path.name)
    assert len(set(names)) >= 2


def test_the_first_fsync_begins_at_once(tmp_path):
    with Neighbour(tmp_path, interval_ns=3600 * 10**9) as neighbour, neighbour.running():
        assert has_answered(neighbour, 20)
        time.sleep(0.1)
    assert neighbour.fsync.latency().count == 1
    assert neighbour.read.latency() is None, "the first read comes half an interval later"


def test_nothing_runs_before_and_after_the_block(tmp_path):
    with Neighbour(tmp_path, interval_ns=TICK_NS) as neighbour:
        (appended,) = tmp_path.glob("*-fsync")
        time.sleep(0.3)
        assert appended.stat().st_size == BLOCK_BYTES
        with neighbour.running():
            assert has_answered(neighbour, 20)
            pid = neighbour.pid
        assert not is_there(pid)
        size_bytes = appended.stat().st_size
        time.sleep(0.1)
        assert appended.stat().st_size == size_bytes > BLOCK_BYTES


def test_no_descriptor_is_left_open(tmp_path):
    before = os.listdir("/proc/self/fd")
    with Neighbour(tmp_path, interval_ns=TICK_NS) as neighbour, neighbour.running():
        pass
    with Neighbour(tmp_path / "missing"):
        pass
    assert os.listdir("/proc/self/fd") == before


def test_where_the_folder_takes_no_files_the_block_runs_without_it(tmp_path):
    has_run = False
    with Neighbour(tmp_path / "missing") as neighbour, neighbour.running():
        has_run = True
    assert has_run
    assert neighbour.problem.startswith("the neighbour could not run: ")
    assert neighbour.fsync.latency() is None
    assert neighbour.dirtied_bytes == 0


def test_a_full_volume_is_a_reason_and_not_an_exception(tmp_path, monkeypatch):
    monkeypatch.setattr(
        process, "file_to_append", lambda folder_fd: os.open("/dev/full", os.O_WRONLY)
    )
    with Neighbour(tmp_path, interval_ns=TICK_NS) as neighbour, neighbour.running():
        assert has_answered(neighbour, 40)
    assert "the neighbour's fsync failed after 0 calls: No space left" in neighbour.problem
    assert neighbour.fsync.latency() is None


def test_a_failure_ends_the_calls_of_its_kind_alone():
    answers = calls_of(write_fd=os.open("/dev/full", os.O_WRONLY), seconds=0.2)
    assert answers[FSYNC].failure == "No space left on device"
    assert answers[FSYNC].took_ns == []
    assert answers[READ].failure == ""


def calls_of(write_fd, seconds):
    """The calls of the program's own loop in this process."""
    answer_fd = os.memfd_create("answer")
    try:
        ended = threading.Event()
        program.run(write_fd, None, answer_fd, 10 * MS, lambda: ended.wait(seconds))
        return parse_answer(os.pread(answer_fd, 10**6, 0).decode())
    finally:
        os.close(answer_fd)
        os.close(write_fd)


def test_each_call_is_a_write_and_an_fsync(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    descriptor = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
    calls = calls_of(descriptor, seconds=0.1)[FSYNC]
    assert synced == [descriptor] * len(calls.took_ns) != []


def test_a_long_call_is_one_sample_and_is_not_caught_up(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "fsync_once", lambda descriptor, block: time.sleep(0.15))
    calls = calls_of(os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY), seconds=0.4)[FSYNC]
    assert 2 <= len(calls.took_ns) <= 4, "not one for each of 40 ticks"
    assert min(calls.took_ns) >= 150 * MS
    assert calls.running_since_ns is None, "the last one was waited for"


@pytest.fixture
def blocked_pipe():
    """The end of a full pipe: a write to it never returns."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    try:
        while True:
            os.write(write_fd, bytes(BLOCK_BYTES))
    except BlockingIOError:
        os.set_blocking(write_fd, True)
    yield write_fd
    os.close(read_fd)


def test_a_call_that_does_not_end_is_a_sample_of_its_time_so_far(
    tmp_path, monkeypatch, blocked_pipe
):
    monkeypatch.setattr(process, "file_to_append", lambda folder_fd: blocked_pipe)
    with Neighbour(tmp_path, interval_ns=TICK_NS, grace_s=0.2) as neighbour:
        with neighbour.running():
            assert has_answered(neighbour, 10)
            pid = neighbour.pid
        assert not is_there(pid)
    assert [time_ns >= 200 * MS for time_ns in neighbour.fsync.took_ns] == [True]
    assert (
        "the neighbour's last fsync had not ended when everything else was durable"
        in neighbour.problem
    )


def test_it_is_killed_at_once_where_the_block_raises(tmp_path, monkeypatch, blocked_pipe):
    monkeypatch.setattr(process, "file_to_append", lambda folder_fd: blocked_pipe)
    began_s = time.monotonic()
    with Neighbour(tmp_path, grace_s=60) as neighbour:
        with pytest.raises(KeyboardInterrupt), neighbour.running():
            assert has_answered(neighbour, 10)
            pid = neighbour.pid
            raise KeyboardInterrupt
        assert not is_there(pid)
    assert time.monotonic() - began_s < 30


def test_one_that_never_began_is_ended_too(tmp_path):
    with Neighbour(tmp_path) as neighbour:
        pid = neighbour.pid
    assert not is_there(pid)
    assert neighbour.fsync.latency() is None


def test_what_it_measured_before_it_was_killed_stays(tmp_path):
    with Neighbour(tmp_path, interval_ns=TICK_NS) as neighbour, neighbour.running():
        assert has_answered(neighbour, 200)
        os.kill(neighbour.pid, signal.SIGKILL)
    assert neighbour.fsync.latency().count >= 1
    assert "the neighbour was killed by SIGKILL" in neighbour.problem


def test_a_killed_call_is_not_a_sample(tmp_path, monkeypatch, blocked_pipe):
    monkeypatch.setattr(process, "file_to_append", lambda folder_fd: blocked_pipe)
    with Neighbour(tmp_path) as neighbour, neighbour.running():
        assert has_answered(neighbour, 10)
        os.kill(neighbour.pid, signal.SIGKILL)
    assert neighbour.fsync.took_ns == []


PARENT = """
import os, sys, time
from pathlib import Path
from profiler.price.process import Neighbour
with Neighbour(Path(sys.argv[1])) as neighbour, neighbour.running():
    while not neighbour.answered_bytes:
        time.sleep(0.02)
    print(neighbour.pid, flush=True)
    time.sleep(60)
"""


def test_it_dies_with_its_parent(tmp_path):
    argv = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=REPOSITORY) as parent:
        pid = int(parent.stdout.readline())
        os.kill(pid, signal.SIGSTOP)  # so that the end of its standard input cannot end it
        parent.kill()
    try:
        assert gone_within(pid, seconds=10)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_symlink_in_the_place_of_its_file_is_not_followed(tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda count: "known")
    Path(tmp_path, ".writewise-neighbour-known-fsync").symlink_to(target)
    with Neighbour(tmp_path) as neighbour, neighbour.running():
        pass
    assert neighbour.problem == "the neighbour could not run: File exists"
    assert target.read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "took_ns", "is_under_way", "begun"),
    [
        ("", [], False, 0),
        ("fsync begun 5\nfsync took 7\n", [7], False, 1),
        ("fsync begun 5\nfsync took 7\nfsync begun 20\n", [7], True, 2),
        ("fsync begun 5\nread begun 6\nread took 1\nfsync took 7\n", [7], False, 1),
        ("fsync begun 5\nfsync took 12", [], True, 1),
        ("fsync begun 5\nfsync failed Input/output error\n", [], False, 1),
        ("nonsense\nfsync what 5\n", [], False, 0),
    ],
)
def test_its_answer(text, took_ns, is_under_way, begun):
    calls = parse_answer(text)[FSYNC]
    assert calls.took_ns == took_ns
    assert (calls.running_since_ns is not None) == is_under_way
    assert calls.begun == begun


def test_the_median_and_the_longest_are_in_seconds():
    answer = "".join(f"read begun 1\nread took {time_ns}\n" for time_ns in (3 * MS, 1 * MS, 9 * MS))
    latency = parse_answer(answer)[READ].latency()
    assert (latency.median_s, latency.worst_s, latency.count) == (0.003, 0.009, 3)
