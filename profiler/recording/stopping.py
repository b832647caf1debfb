# SPDX-License-Identifier: Apache-2.0
"""Lets signals end a service in order, at the next step of its loop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether the loop is to end; a signal sets it."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Make the loop end at the next sample."""
        self.is_set = True


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Let SIGINT, SIGTERM and SIGHUP end the loop within the block; ignored ones stay ignored."""
    stop = Stop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop.set) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
