"""Runs a command under a profile session, from its first instruction to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from types import FrameType

from contracts.errors import WritewiseError
from contracts.text import printable
from profiler.session import ProfileSession

#: As shells say it.
NOT_FOUND_EXIT_CODE = 127
NOT_EXECUTABLE_EXIT_CODE = 126
SIGNALLED_EXIT_CODE = 128
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_command(
    session: ProfileSession, command: Sequence[str], *, stdout_fd: int | None = None
) -> int:
    """Run `command` (not through a shell) and return its exit code, 128 + N for signal N.

    SIGTERM, SIGHUP and SIGINT are the command's while it runs; to be called from the main thread.
    `stdout_fd` takes the command's standard output. Raises WritewiseError, exit code 127 or 126,
    when it cannot be started.
    """
    with _forwarding() as forwarder:
        with session.tracking_new():
            process = _start(command, stdout_fd)
        forwarder.forward_to(process)
        return_code = process.wait()
    return return_code if return_code >= 0 else SIGNALLED_EXIT_CODE - return_code


def _start(command: Sequence[str], stdout_fd: int | None) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, stdout=stdout_fd)
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        reason = getattr(error, "strerror", None) or str(error)
        missing = isinstance(error, FileNotFoundError)
        failure = WritewiseError(f"cannot run {printable(command[0])}: {reason}")
        failure.exit_code = NOT_FOUND_EXIT_CODE if missing else NOT_EXECUTABLE_EXIT_CODE
        raise failure from None


class _Forwarder:
    """Passes signals on to a process; those that come before it is known, once it is."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler."""
        if number == signal.SIGINT and _has_terminal():
            return
        if self._process is None:
            self._waiting.append(number)
        else:
            self._process.send_signal(number)

    def forward_to(self, process: subprocess.Popen[bytes]) -> None:
        """The process is known."""
        self._process = process
        for number in self._waiting:
            process.send_signal(number)


@contextlib.contextmanager
def _forwarding() -> Iterator[_Forwarder]:
    """Take the signals that are not ignored.

    A handler, unlike SIG_IGN, is not inherited through exec: the command gets the default.
    """
    forwarder = _Forwarder()
    before = {number: signal.getsignal(number) for number in _FORWARDED}
    handled = [number for number in _FORWARDED if before[number] is not signal.SIG_IGN]
    try:
        for number in handled:
            signal.signal(number, forwarder.handle)
        yield forwarder
    finally:
        for number in handled:
            signal.signal(number, before[number])


def _has_terminal() -> bool:
    """Whether Ctrl-C reaches the command without us: its group is the terminal's foreground."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
