# SPDX-License-Identifier: Apache-2.0
"""Runs a command under a profile session, from its first instruction to its exit."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence

from contracts.shared import exit_codes
from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from profiler.bpf.session import ProfileSession
from profiler.recording.identity import Identity

#: si_code of a signal that the kernel sent (include/uapi/asm-generic/siginfo.h).
_SI_KERNEL = 0x80
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Python ignores these at start-up, but a command expects the default (as with `subprocess`).
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

    `identity` is the user to run it as, None for the current user. SIGTERM, SIGHUP and SIGINT are
    passed to the command while it runs; call this from the main thread. `stdout_fd` receives the
    command's standard output; `on_start` is called with its pid. Raises WritewiseError with exit
    code 127 or 126 if it cannot be started.
    """
    with _taking_signals() as early, _blocked(_awaited()) as mask_before:
        with session.tracking_new():
            pid = _start(command, identity, stdout_fd, mask_before)
        if on_start:
            on_start(pid)
        for number in early:  # they came before the command existed
            os.kill(pid, number)
        return_code = _wait(pid)
    return return_code if return_code >= 0 else exit_codes.SIGNALLED - return_code


def _start(
    command: Sequence[str], identity: Identity | None, stdout_fd: int | None, mask: Iterable[int]
) -> int:
    """Start the command and return its pid.

    It inherits what this process inherited (streams, a shell's `<(…)`) but none of its own
    descriptors, which Python and the loader do not make inheritable. posix_spawn sets the command's
    signal mask: signals are blocked here before the command starts, so that the sender of each is
    known.
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
    hint = "check its permissions, or run it as root with --user root" if identity else ""
    failure = WritewiseError(f"cannot run {printable(name)}{whom}: {reason}", hint)
    missing = isinstance(error, FileNotFoundError)
    failure.exit_code = exit_codes.NOT_FOUND if missing else exit_codes.NOT_EXECUTABLE
    return failure


def _awaited() -> set[signal.Signals]:
    """Return SIGCHLD and the signals to pass on to the command, except ignored ones."""
    heard = {number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN}
    return {signal.SIGCHLD, *heard}


def _wait(pid: int) -> int:
    """Wait for the command's end and pass on signals, except Ctrl-C, which it receives itself.

    A signal from the terminal comes from the kernel, and also reaches the command. sigwaitinfo
    shows who sent a signal; a Python handler does not.
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
    """Block signals in this thread within the block; yield the previous mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield set(before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _taking_signals() -> Iterator[list[int]]:
    """Handle the signals that are not ignored; the list receives those before the command starts.

    Unlike SIG_IGN and masks, handlers are not inherited through exec, so the command gets the
    defaults. SIGCHLD is reset because the parent may have set it to be ignored.
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
