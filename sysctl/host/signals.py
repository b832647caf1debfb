# SPDX-License-Identifier: Apache-2.0
"""Holding back signals that would end the program at a critical moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Delay signals until the end of the block; blocks may be nested.

    A signal mask is not enough: it belongs to one thread, and Python runs handlers in the main
    thread whichever thread (such as that of a progress bar) the kernel gave the signal to. Handlers
    never interrupt other threads.
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
