# SPDX-License-Identifier: Apache-2.0
"""The file of the history: bounded, several writers, kills, full disks and damaged lines."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared.text import is_unprintable
from profiler.history import file as history_file
from profiler.history.entry import HistoryEntry, entry_of_line
from profiler.history.file import (
    MAX_BYTES,
    MAX_ENTRIES,
    HistoryError,
    add_entry,
    history_path,
    read_entries,
)
from tests.places import REPOSITORY
from tests.unit.ordinary_user import open_folder, ordinary_user

ENTRY = HistoryEntry(
    at="2026-11-23T14:00:00+00:00",
    elapsed_s=1.5,
    command="apply",
    user="alice (uid 1000)",
    arguments=("apply", "recommendation.json", "--yes"),
    outcome=("applied vm.dirty_ratio 20 → 60",),
    exit_code=0,
)
#: Adds entries that name the process, forever or as often as the second argument says.
WRITER = """
import itertools, sys
from dataclasses import replace
from pathlib import Path
from profiler.history.file import add_entry
from tests.unit.profiler.history.test_file import ENTRY
path, count, name = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for number in itertools.islice(itertools.count(), count or None):
    add_entry(path, replace(ENTRY, user=name, elapsed_s=float(number)))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "history.jsonl"


def writer(path, count, name):
    words = [sys.executable, "-c", WRITER, str(path), str(count), name]
    return subprocess.Popen(words, cwd=REPOSITORY)


def test_entries_come_back_in_their_order_and_only_their_user_can_read_them(path):
    later = replace(ENTRY, command="rollback", error="no room", exit_code=1)
    for entry in (ENTRY, later):
        add_entry(path, entry)
    assert read_entries(path) == ((ENTRY, later), 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_without_a_file_there_are_no_entries(path):
    assert read_entries(path) == ((), 0)


def test_the_oldest_entries_go_and_the_number_is_bounded(path):
    for number in range(MAX_ENTRIES + 5):
        add_entry(path, replace(ENTRY, elapsed_s=float(number)))
    numbers = [entry.elapsed_s for entry in read_entries(path).entries]
    assert MAX_ENTRIES * 3 // 4 <= len(numbers) <= MAX_ENTRIES
    last = MAX_ENTRIES + 4
    assert numbers == [float(n) for n in range(last + 1 - len(numbers), last + 1)]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_the_size_is_bounded(path):
    large = replace(ENTRY, outcome=("x" * 390,) * 5, arguments=("y" * 390,) * 5)
    for _ in range(300):
        add_entry(path, large)
        assert path.stat().st_size <= MAX_BYTES
    assert len(read_entries(path).entries) > 100


def test_a_file_that_is_far_too_large_is_not_read_whole_and_shrinks(path):
    path.parent.mkdir(mode=0o700)
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse: a terabyte of NULs
    add_entry(path, ENTRY)
    assert path.stat().st_size < 2**20
    assert read_entries(path).entries == (ENTRY,)


def test_several_writers_lose_nothing(path):
    writers = [writer(path, 100, f"w{number}") for number in range(4)]
    assert [each.wait(60) for each in writers] == [0] * 4
    entries, skipped = read_entries(path)
    assert skipped == 0
    for number in range(4):
        own = [entry.elapsed_s for entry in entries if entry.user == f"w{number}"]
        assert own == [float(n) for n in range(100)]


def test_several_writers_beyond_the_bound_keep_their_newest(path):
    for number in range(MAX_ENTRIES - 20):
        add_entry(path, replace(ENTRY, elapsed_s=float(number)))
    writers = [writer(path, 100, f"w{number}") for number in range(3)]
    assert [each.wait(60) for each in writers] == [0] * 3
    entries, skipped = read_entries(path)
    assert skipped == 0 and len(entries) <= MAX_ENTRIES
    for number in range(3):
        own = [entry.elapsed_s for entry in entries if entry.user == f"w{number}"]
        assert own == [float(n) for n in range(100)]


def test_a_killed_writer_leaves_whole_entries_and_no_lock(path):
    for _ in range(10):
        running = writer(path, 0, "killed")
        before = len(read_entries(path).entries)
        until = time.monotonic() + 30
        while len(read_entries(path).entries) < before + 3 and time.monotonic() < until:
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
        add_entry(path, ENTRY)
        entries, skipped = read_entries(path)
        assert skipped <= 1 and entries[-1] == ENTRY
        path.unlink()


def test_a_line_that_was_cut_is_skipped_and_counted_and_the_next_is_whole(path):
    add_entry(path, ENTRY)
    with path.open("ab") as file:
        file.write(ENTRY.to_line()[:40])
    assert read_entries(path) == ((ENTRY,), 1)
    add_entry(path, replace(ENTRY, command="run"))
    entries, skipped = read_entries(path)
    assert ([entry.command for entry in entries], skipped) == (["apply", "run"], 1)


@pytest.mark.parametrize(
    "line",
    [
        b"\0" * 100,
        b"{}",
        b"[]",
        b"3",
        b"[" * 100_000,
        b'{"version": 1}',
        b"\xff\xfe",
        ENTRY.to_line().replace(b'"version": 1', b'"version": 2'),
        ENTRY.to_line().replace(b"1.5", b"NaN"),
        ENTRY.to_line().replace(b"1.5", b"1e999"),
        ENTRY.to_line().replace(b"1.5", b"9" * 5000),
        ENTRY.to_line().replace(b'"apply",', b'["apply"],'),
        ENTRY.to_line().replace(b"+00:00", b""),
        ENTRY.to_line().replace(b"2026", b"yesterday"),
        ENTRY.to_line().replace(b"2026-11-23T14:00:00+00:00", b"0001-01-01T00:00:00+14:00"),
        ENTRY.to_line().replace(b"2026-11-23T14:00:00+00:00", b"9999-12-31T23:59:59-14:00"),
        ENTRY.to_line().replace(b"1.5", b"1e308"),
        ENTRY.to_line().replace(b"1.5", b"-1e308"),
        ENTRY.to_line().replace(b'"exit_code": 0', b'"exit_code": "none"'),
    ],
)
def test_other_lines_are_skipped(path, line):
    path.parent.mkdir()
    path.write_bytes(line.rstrip(b"\n") + b"\n" + ENTRY.to_line())
    assert read_entries(path) == ((ENTRY,), 1)


def test_a_full_disk_leaves_the_file_as_it_was(path, monkeypatch):
    add_entry(path, ENTRY)
    before = path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
    with pytest.raises(HistoryError, match="No space left"):
        add_entry(path, replace(ENTRY, command="run"))
    assert path.read_bytes() == before


def test_a_lock_that_is_never_released_does_not_hold_a_command_up(path, monkeypatch):
    add_entry(path, ENTRY)
    monkeypatch.setattr(history_file, "PATIENCE_S", 0.1)
    holder = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); input()"
    )
    words = [sys.executable, "-c", holder, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        running.stdout.readline()
        with pytest.raises(HistoryError, match="another program holds its lock"):
            add_entry(path, ENTRY)
        assert read_entries(path).entries == (ENTRY,)
        running.communicate(b"\n")


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path)]
)
def test_what_is_no_file_is_refused(path, make):
    path.parent.mkdir(mode=0o700)
    make(path)
    with pytest.raises(HistoryError):
        add_entry(path, ENTRY)
    with pytest.raises(HistoryError):
        read_entries(path)


@given(st.text(), st.lists(st.text(), max_size=30))
def test_any_text_becomes_one_printable_line(text, words):
    entry = replace(ENTRY, user=text, arguments=tuple(words), outcome=(text,), error=text)
    line = entry.to_line()
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    found = entry_of_line(line)
    texts = (found.user, found.error, *found.arguments, *found.outcome)
    assert not any(map(is_unprintable, "".join(texts)))


def test_long_texts_are_cut():
    line = replace(ENTRY, arguments=("a" * 10**6,) * 100, outcome=("\0" * 10**5,)).to_line()
    assert len(line) < 2**14
    assert entry_of_line(line).arguments[-1] == "…"


def test_the_file_of_an_ordinary_user_is_their_own(monkeypatch):
    monkeypatch.delenv("WRITEWISE_STATE_DIRECTORY", raising=False)
    with open_folder() as folder:
        (folder / "home").mkdir()
        (folder / "home").chmod(0o777)
        environment = {"HOME": str(folder / "home")}
        with ordinary_user():
            path = history_path(environment)
            assert path == folder / "home/.local/state/writewise/history.jsonl"
            add_entry(path, ENTRY)
            assert read_entries(path).entries == (ENTRY,)
            other = {**environment, "XDG_STATE_HOME": str(folder / "x")}
            assert history_path(other) == folder / "x/writewise/history.jsonl"
            assert history_path({**environment, "XDG_STATE_HOME": "relative"}) == path
            assert history_path({"HOME": "/nonexistent"}) is None
            assert history_path({}) is None


def test_an_entry_is_one_line_of_json():
    document = json.loads(ENTRY.to_line())
    assert document["version"] == 1
    assert {**ENTRY.to_json(), "version": 1} == {
        **document,
        "arguments": ENTRY.arguments,
        "outcome": ENTRY.outcome,
    }
