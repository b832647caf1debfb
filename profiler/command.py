"""Runs a command under a profile session, from its first instruction to its end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence

from contracts.errors import WritewiseError
from contracts.text import printable
from profiler.session import ProfileSession

#: As shells say it.
NOT_FOUND_EXIT_CODE = 127
NOT_EXECUTABLE_EXIT_CODE = 126
SIGNALLED_EXIT_CODE = 128
#: si_code of a signal that the kernel sent (include/uapi/asm-generic/siginfo.h).
_SI_KERNEL = 0x80
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_command(
    session: ProfileSession,
    command: Sequence[str],
    *,
    stdout_fd: int | None = None,
    on_start: Callable[[int], None] | None = None,
) -> int:
    """Run `command` (not through a shell) and return its exit code, 128 + N for signal N.

    SIGTERM, SIGHUP and SIGINT are the command's while it runs; to be called from the main thread.
    `stdout_fd` takes the command's standard output; `on_start` is called with its pid. Raises
    WritewiseError, exit code 127 or 126, when it cannot be started.
    """
    with _taking_signals() as early:
        with session.tracking_new():
            process = _start(command, stdout_fd)
        if on_start:
            on_start(process.pid)
        for number in early:
            process.send_signal(number)
        return_code = _wait(process)
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


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end and pass on the signals that come, but for those that both get: Ctrl-C.

    What a terminal sends comes from the kernel, and goes to the command in its own right; a handler
    is not told who sent a signal, hence the waiting for them.
    """
    forwarded = {number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN}
    awaited = {signal.SIGCHLD, *forwarded}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        while process.poll() is None:
            came = signal.sigwaitinfo(awaited)
            is_ctrl_c = came.si_signo == signal.SIGINT and came.si_code == _SI_KERNEL
            if came.si_signo in forwarded and not is_ctrl_c:
                process.send_signal(came.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return int(process.returncode)


@contextlib.contextmanager
def _taking_signals() -> Iterator[list[int]]:
    """Take the signals that are not ignored; the list gets those that come before the wait.

    A handler, unlike SIG_IGN or a mask, is not inherited through exec: the command gets the
    default. A SIGCHLD that is ignored (by who started us) would tell of no end.
    """
    early: list[int] = []
    before = {number: signal.getsignal(number) for number in (*_FORWARDED, signal.SIGCHLD)}
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in _FORWARDED:
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, lambda came, _: early.append(came))
        yield early
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
