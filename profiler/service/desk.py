# SPDX-License-Identifier: Apache-2.0
"""Calls from other threads, run by the one thread that measures.

So the measuring code needs no locks, and the threads that talk to others need no privileges.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerError
from typing import Any, TypeVar

T = TypeVar("T")
#: How long another thread waits for an answer: less than a connection may take.
ANSWER_S = 4.0
_NS_PER_S = 10**9


class Desk:
    """Takes calls from any thread (`ask`) and runs them in the thread that calls `work`."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._asked: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()

    def ask(self, call: Callable[[], T], timeout_s: float = ANSWER_S) -> T:
        """Return what the call returns. Raises what it raises, and TimeoutError."""
        answer: Future[T] = Future()
        self._asked.put((answer, call))
        try:
            return answer.result(timeout_s)
        except NoAnswerError:  # before Python 3.11 not the TimeoutError that all know
            raise TimeoutError("the measuring thread is busy") from None
        finally:
            answer.cancel()  # nobody waits for it any more

    def work(self, until_ns: int) -> None:
        """Run calls until that time, and at most one after it, however many wait.

        Who asks without a pause must not keep the thread from its own work.
        """
        is_over = False
        while not is_over:
            left_ns = until_ns - self._clock_ns()
            is_over = left_ns <= 0
            try:
                answer, call = self._asked.get(timeout=max(0, left_ns) / _NS_PER_S)
            except queue.Empty:
                return
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(call())
            except Exception as error:
                answer.set_exception(error)
