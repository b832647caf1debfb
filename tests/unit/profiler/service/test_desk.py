# SPDX-License-Identifier: Apache-2.0
"""Calls from other threads are run by the thread that works, and nobody waits for ever."""

from __future__ import annotations

import threading
import time

import pytest

from profiler.service.desk import Desk


def test_a_call_runs_in_the_working_thread() -> None:
    desk, answers = Desk(), []
    asking = threading.Thread(target=lambda: answers.append(desk.ask(threading.get_ident)))
    asking.start()
    desk.work(time.monotonic_ns() + 10**9)
    asking.join()
    assert answers == [threading.get_ident()]


def test_an_error_reaches_who_asked() -> None:
    desk, errors = Desk(), []

    def ask():
        try:
            desk.ask(lambda: 1 // 0)
        except ZeroDivisionError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    desk.work(time.monotonic_ns() + 5 * 10**8)
    asking.join()
    assert len(errors) == 1


def test_without_an_answer_it_times_out_and_the_call_is_dropped() -> None:
    desk, ran = Desk(), []
    with pytest.raises(TimeoutError, match="busy"):
        desk.ask(lambda: ran.append(1), timeout_s=0.05)
    desk.work(time.monotonic_ns())
    assert ran == []


def test_calls_without_end_do_not_hold_up_the_working_thread() -> None:
    """Eight clients that scrape without a pause, or a local user who means harm."""
    desk, over, ran = Desk(), threading.Event(), []

    def ask():
        while not over.is_set():
            desk.ask(lambda: ran.append(time.sleep(0.01)))

    asking = [threading.Thread(target=ask) for _ in range(8)]
    for each in asking:
        each.start()
    end = threading.Timer(5, over.set)
    end.start()
    began_ns = time.monotonic_ns()
    desk.work(began_ns + 2 * 10**8)
    took_ns = time.monotonic_ns() - began_ns
    over.set()
    end.cancel()
    desk.work(time.monotonic_ns() + 5 * 10**8)  # what was asked before the end
    for each in asking:
        each.join()
    assert took_ns < 2 * 10**9
    assert ran


def test_work_ends_on_time() -> None:
    began_ns = time.monotonic_ns()
    Desk().work(began_ns + 10**8)
    assert time.monotonic_ns() >= began_ns + 10**8
