"""Signals that wait, so that none can tear what must be done whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Let the signals that end a program wait for the end of the block.

    Python runs its handlers in the main thread only; in another one there is nothing to hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {n: signal.signal(n, lambda number, _: came.append(number)) for n in _HELD_BACK}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in dict.fromkeys(came):
            signal.raise_signal(late)
