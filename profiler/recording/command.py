"""Runs a command under a profile session, from its first instruction to its end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence

from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from profiler.bpf.session import ProfileSession
from profiler.recording.identity import Identity

#: As shells say it.
NOT_FOUND_EXIT_CODE = 127
NOT_EXECUTABLE_EXIT_CODE = 126
SIGNALLED_EXIT_CODE = 128
#: si_code of a signal that the kernel sent (include/uapi/asm-generic/siginfo.h).
_SI_KERNEL = 0x80
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What Python ignores at its start and a command expects to end it (as `subprocess` does).
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_STDOUT, _STDERR = 1, 2


def run_command(
    session: ProfileSession,
    command: Sequence[str],
    *,
    identity: Identity | None = None,
    stdout_fd: int | None = None,
    on_start: Callable[[int], None] | None = None,
) -> int:
    """Run `command` (not through a shell) and return its exit code, 128 + N for signal N.

    `identity` is the user that it runs as, None for who we are.

    SIGTERM, SIGHUP and SIGINT are the command's while it runs; to be called from the main thread.
    `stdout_fd` takes the command's standard output; `on_start` is called with its pid. Raises
    WritewiseError, exit code 127 or 126, when it cannot be started.
    """
    with _taking_signals() as early, _blocked(_awaited()) as mask_before:
        with session.tracking_new():
            pid = _start(command, identity, stdout_fd, mask_before)
        if on_start:
            on_start(pid)
        for number in early:  # the command was not there yet to get them in its own right
            os.kill(pid, number)
        return_code = _wait(pid)
    return return_code if return_code >= 0 else SIGNALLED_EXIT_CODE - return_code


def _start(
    command: Sequence[str], identity: Identity | None, stdout_fd: int | None, mask: Iterable[int]
) -> int:
    """The pid of the command, which has what we were given (our streams, a shell's `<(…)`) and no
    descriptor of our own: Python and the loader make those that are not inherited.

    By posix_spawn, which gives it a mask of its own: signals are blocked here before it can be
    there, so that none is taken without knowing who sent it.
    """
    onto_stdout = [] if stdout_fd is None else [(os.POSIX_SPAWN_DUP2, stdout_fd, _STDOUT)]
    try:
        with identity.assumed() if identity else contextlib.nullcontext():
            return os.posix_spawnp(
                command[0],
                list(command),
                identity.environment() if identity else os.environ,
                file_actions=onto_stdout,
                setsigmask=mask,
                setsigdef=_IGNORED_BY_PYTHON,
            )
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        raise _cannot_run(command[0], identity, error) from None


def _cannot_run(name: str, identity: Identity | None, error: Exception) -> WritewiseError:
    reason = getattr(error, "strerror", None) or str(error)
    whom = f" as {identity}" if identity else ""
    hint = "--user root runs it as root" if identity else ""
    failure = WritewiseError(f"cannot run {printable(name)}{whom}: {reason}", hint)
    missing = isinstance(error, FileNotFoundError)
    failure.exit_code = NOT_FOUND_EXIT_CODE if missing else NOT_EXECUTABLE_EXIT_CODE
    return failure


def _awaited() -> set[signal.Signals]:
    """The end of the command, and the signals that are passed on to it: those not ignored."""
    heard = {number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN}
    return {signal.SIGCHLD, *heard}


def _wait(pid: int) -> int:
    """Wait for the end and pass on the signals that come, but for those that both get: Ctrl-C.

    What a terminal sends comes from the kernel, and goes to the command in its own right; a handler
    is not told who sent a signal, hence the waiting for them.
    """
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        came = signal.sigwaitinfo(_awaited())
        is_ctrl_c = came.si_signo == signal.SIGINT and came.si_code == _SI_KERNEL
        if came.si_signo in _FORWARDED and not is_ctrl_c:
            os.kill(pid, came.si_signo)


@contextlib.contextmanager
def _blocked(numbers: Iterable[int]) -> Iterator[set[int]]:
    """Block signals in this thread; the mask as it was before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield set(before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _taking_signals() -> Iterator[list[int]]:
    """Take the signals that are not ignored; the list gets those that come before the start.

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
