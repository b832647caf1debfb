"""Signals that would end the program, held back while it must not be torn."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Let signals wait for the end of the block; blocks nest.

    A mask would not do: it is one thread's, and Python runs its handlers in the main thread
    whichever thread (a progress bar's, say) the kernel gave the signal to. Other threads than the
    main one are never torn by a handler.
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
