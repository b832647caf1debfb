# SPDX-License-Identifier: Apache-2.0
"""Waits for a running process, for a time, or for Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from contracts.shared.errors import UsageError
from profiler.bpf.session import ProfileSession

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NS_PER_MS = 10**6


def wait_for_process(
    session: ProfileSession, pid: int, duration_ns: int | None, on_start: Callable[[], None]
) -> None:
    """Follow a running process until it ends or the time is over; call `on_start` first.

    Raises UsageError.
    """
    try:
        process_fd = os.pidfd_open(pid)
    except OSError as error:
        message = f"cannot follow process {pid}: {error.strerror}"
        raise UsageError(message, "pass the id of a running process") from None
    try:
        session.track(pid)
        on_start()
        poll = select.poll()
        poll.register(process_fd, select.POLLIN)
        poll.poll(_milliseconds(duration_ns))
    finally:
        os.close(process_fd)


def wait(duration_ns: int | None) -> None:
    """Wait until the time is over; without one, until a signal raises."""
    select.poll().poll(_milliseconds(duration_ns))


def _milliseconds(duration_ns: int | None) -> int | None:
    return None if duration_ns is None else -(-duration_ns // _NS_PER_MS)


class _InterruptedError(Exception):
    """SIGINT, SIGTERM or SIGHUP: stop waiting and report."""


@contextlib.contextmanager
def until_interrupted() -> Iterator[None]:
    """End only the block on SIGINT, SIGTERM or SIGHUP (a lost connection).

    Ignored signals stay ignored (nohup).
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        restore()  # a second signal must not be taken for this wait
        raise _InterruptedError

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: was for number, was in before.items() if was is not signal.SIG_IGN}
    try:
        with contextlib.suppress(_InterruptedError):
            for number in before:
                signal.signal(number, stop)
            yield
    finally:
        restore()
