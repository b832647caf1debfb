# SPDX-License-Identifier: Apache-2.0
"""Beats come when they are due, whatever a late one took; a failing one stops alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

from profiler.watch.ticker import Beat, Ticker, start_deaf

SECOND_NS = 10**9


class Time:
    """A clock that only waiting and working advance; the wait reports the end after `end_s`."""

    def __init__(self, end_s: float) -> None:
        self.now_ns = 0
        self.end_ns = int(end_s * SECOND_NS)

    def clock_ns(self) -> int:
        return self.now_ns

    def wait(self, seconds: float) -> bool:
        self.now_ns += round(seconds * SECOND_NS)
        return self.now_ns >= self.end_ns

    def work(self, *costs_s: float) -> tuple[list[float], Callable[[], None]]:
        """When a beat's runs began, in s, and the beat, which takes its costs one by one."""
        began: list[float] = []
        left = list(costs_s)

        def run() -> None:
            began.append(self.now_ns / SECOND_NS)
            self.now_ns += int((left.pop(0) if left else 0) * SECOND_NS)

        return began, run


def run(time: Time, *beats: Beat) -> Ticker:
    ticker = Ticker(beats, clock_ns=time.clock_ns, wait=time.wait)
    ticker.run()
    return ticker


def test_a_late_run_makes_no_later_one_late() -> None:
    time = Time(end_s=6.5)
    began, beat = time.work(0.1, 0.3, 0.1)
    run(time, Beat(SECOND_NS, beat))
    assert began == [1, 2, 3, 4, 5, 6]


def test_intervals_are_counted_from_the_start_that_is_given() -> None:
    time = Time(end_s=2)
    time.now_ns = SECOND_NS // 4
    began, beat = time.work()
    Ticker([Beat(SECOND_NS, beat)], start_ns=0, clock_ns=time.clock_ns, wait=time.wait).run()
    assert began == [1]


def test_beats_that_come_while_one_runs_are_left_out() -> None:
    time = Time(end_s=6.5)
    began, beat = time.work(2.5)
    run(time, Beat(SECOND_NS, beat))
    assert began == [1, 4, 5, 6]


def test_an_expensive_beat_runs_as_rarely_as_its_share_says() -> None:
    time = Time(end_s=30)
    began, beat = time.work(*[0.5] * 30)
    run(time, Beat(SECOND_NS, beat, share=0.1))
    assert began == [1, 6, 11, 16, 21, 26]


def test_beats_share_one_thread() -> None:
    time = Time(end_s=3.1)
    slow_began, slow = time.work(0.7, 0.7)
    quick_began, quick = time.work()
    run(time, Beat(SECOND_NS, slow), Beat(SECOND_NS // 2, quick))
    assert slow_began == [1, 2, 3]
    assert quick_began == [0.5, 1.7, 2.7, 3]


def test_a_beat_that_fails_is_reported_and_stops_alone() -> None:
    time = Time(end_s=3.5)
    began, beat = time.work()

    def fail() -> None:
        raise ValueError("no")

    ticker = run(time, Beat(SECOND_NS, fail), Beat(SECOND_NS, beat))
    assert began == [1, 2, 3]
    assert isinstance(ticker.failure, ValueError)


def test_without_beats_there_is_no_thread() -> None:
    threads = threading.active_count()
    with Ticker(()):
        assert threading.active_count() == threads


def test_the_context_ends_the_thread() -> None:
    ran = threading.Event()
    with Ticker([Beat(10**6, ran.set)]):
        assert ran.wait(10)
    assert "ticker" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGCHLD, signal.SIGINT])
def test_the_thread_takes_no_signal(number: signal.Signals) -> None:
    blocked: set[object] = set()
    thread = threading.Thread(
        target=lambda: blocked.update(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    start_deaf(thread)
    thread.join()
    assert number in blocked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
