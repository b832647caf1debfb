# SPDX-License-Identifier: Apache-2.0
"""Periodic work in one thread, while the main thread waits for something else.

With one thread, pieces of work need no locks against each other.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_NS_PER_S = 10**9


@dataclass
class Beat:
    """Calls `run` every `interval_ns`, counted from the start, so that delays do not add up.

    Beats that come due during a run are skipped, and as many more as needed to keep its share of
    the thread's time below `share`.
    """

    interval_ns: int
    run: Callable[[], None]
    share: float = 1.0
    due_ns: int = field(default=0, init=False)

    def start(self, start_ns: int) -> None:
        """Set the first run to one interval after the start."""
        self.due_ns = start_ns + self.interval_ns

    def ran(self, began_ns: int, now_ns: int) -> None:
        """Set the next run after one that took from `began_ns` to `now_ns`."""
        rest_ns = (now_ns - began_ns) * (1 / self.share - 1)
        late_ns = now_ns + rest_ns - self.due_ns
        self.due_ns += self.interval_ns * max(1, int(-(-late_ns // self.interval_ns)))


class Ticker:
    """Runs beats in a thread within the block; they have ended after it.

    A beat that raises is no longer run. `failure` is the first such exception; it is not raised
    here, where it would discard the main thread's work. Intervals are counted from `start_ns`, by
    default from when the thread begins. `wait` sleeps for the given seconds and returns whether the
    block has ended; tests replace it.
    """

    def __init__(
        self,
        beats: Iterable[Beat],
        *,
        start_ns: int | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._beats = list(beats)
        self._start_ns = start_ns
        self._clock_ns = clock_ns
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._thread = threading.Thread(target=self.run, name="ticker", daemon=True)
        self.failure: Exception | None = None

    def __enter__(self) -> Ticker:
        if self._beats:
            start_deaf(self._thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._beats:
            self._thread.join()

    def run(self) -> None:
        """Run the beats when they are due, until the block ends; the body of the thread."""
        start_ns = self._clock_ns() if self._start_ns is None else self._start_ns
        for beat in self._beats:
            beat.start(start_ns)
        while self._beats:
            beat = min(self._beats, key=lambda beat: beat.due_ns)
            if self._wait(max(0, beat.due_ns - self._clock_ns()) / _NS_PER_S):
                return
            self._run(beat)

    def _run(self, beat: Beat) -> None:
        began_ns = self._clock_ns()
        try:
            beat.run()
        except Exception as error:
            self.failure = self.failure or error
            self._beats.remove(beat)
        beat.ran(began_ns, self._clock_ns())


def start_deaf(thread: threading.Thread) -> None:
    """Start a thread that blocks all signals, because the main thread waits for them.

    Otherwise the new thread could receive a signal instead, and a SIGCHLD would be lost.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
