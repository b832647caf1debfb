# SPDX-License-Identifier: Apache-2.0
"""Threads that fetch the parts of several objects at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from profiler.pull.clients.part_threads import Abandoned, Check, PartThreads

PATIENCE_S = 10.0


def parts(count: int) -> list[range]:
    return [range(number, number + 1) for number in range(count)]


def test_every_part_is_fetched_once() -> None:
    fetched: list[range] = []
    threads = PartThreads(4)
    threads.run(parts(100), lambda part, check: fetched.append(part))
    assert sorted(fetched, key=lambda part: part.start) == parts(100)
    threads.run([], lambda part, check: fetched.append(part))
    assert len(fetched) == 100


def test_each_thread_takes_a_part_of_the_object_that_the_fewest_work_on() -> None:
    at_work: list[str] = []
    threads = PartThreads(3)
    all_hold, all_at_work = threading.Barrier(4), threading.Barrier(4)
    all_wait, may_end = threading.Event(), threading.Event()

    def hold(part: range, check: Check) -> None:
        all_hold.wait(PATIENCE_S)
        all_wait.wait(PATIENCE_S)

    def run(name: str) -> None:
        def fetch(part: range, check: Check) -> None:
            if not may_end.is_set():
                at_work.append(name)
                all_at_work.wait(PATIENCE_S)
                may_end.wait(PATIENCE_S)

        threads.run(parts(5), fetch)

    with ThreadPoolExecutor(4) as callers:
        calls = [callers.submit(threads.run, parts(3), hold)]
        all_hold.wait(PATIENCE_S)
        calls += [callers.submit(run, name) for name in "abc"]
        while threads.objects_under_way < 4:
            threading.Event().wait(0.001)
        all_wait.set()
        all_at_work.wait(PATIENCE_S)
        assert sorted(at_work) == ["a", "b", "c"]
        may_end.set()
        for call in calls:
            call.result(PATIENCE_S)


def test_a_part_that_fails_ends_the_others_of_its_object_alone() -> None:
    begun: list[int] = []
    abandoned: list[int] = []
    second_at_work, other_done = threading.Event(), threading.Event()
    threads = PartThreads(2)

    def fetch(part: range, check: Check) -> None:
        begun.append(part.start)
        if part.start == 0:
            second_at_work.wait(PATIENCE_S)
            raise ConnectionError("gone")
        second_at_work.set()
        try:
            for _ in range(int(PATIENCE_S / 0.001)):
                check()
                threading.Event().wait(0.001)
        except Abandoned:
            abandoned.append(part.start)
            raise

    with pytest.raises(ConnectionError, match="gone"):
        threads.run(parts(50), fetch)
    assert begun == [0, 1]
    assert abandoned == [1]
    threads.run(parts(1), lambda part, check: other_done.set())
    assert other_done.is_set()


def test_no_part_is_under_way_once_its_object_has_failed() -> None:
    under_way = 0
    lock, all_begun = threading.Lock(), threading.Barrier(4)
    threads = PartThreads(4)

    def fetch(part: range, check: Check) -> None:
        nonlocal under_way
        with lock:
            under_way += 1
        all_begun.wait(PATIENCE_S)
        threading.Event().wait(0.02 * part.start)
        with lock:
            under_way -= 1
        raise OSError(f"part {part.start}")

    with pytest.raises(OSError, match="part 0"):
        threads.run(parts(4), fetch)
    assert under_way == 0
