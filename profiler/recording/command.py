# SPDX-License-Identifier: Apache-2.0
"""Runs a command, from its first instruction to its exit, and passes signals on to it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from contracts.shared import exit_codes
from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from profiler.recording.identity import Identity

#: si_code of a signal that the kernel sent (include/uapi/asm-generic/siginfo.h).
_SI_KERNEL = 0x80
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Python ignores these at start-up, but a command expects the default (as with `subprocess`).
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_STDOUT = 1


@dataclass(frozen=True)
class Poll:
    """What is called every `interval_s` while a command runs."""

    interval_s: float
    run: Callable[[], None]


@dataclass(frozen=True)
class Signals:
    """SIGCHLD and the signals that end a program, blocked: they wait until they are taken.

    `mask_before` is the signal mask for a command; `early` has the signals that came before they
    were blocked. Ignored signals (nohup) stay ignored.
    """

    awaited: frozenset[int]
    mask_before: frozenset[int]
    early: list[int] = field(default_factory=list)

    def take(self, timeout_s: float | None = None) -> signal.struct_siginfo | None:
        """Wait for the next signal; None if none came in time."""
        if timeout_s is None:
            return signal.sigwaitinfo(self.awaited)
        return signal.sigtimedwait(self.awaited, timeout_s)

    def drop(self) -> None:
        """Forget the signals that have come."""
        self.early.clear()
        while self.take(0) is not None:
            pass


@contextlib.contextmanager
def signals_taken() -> Iterator[Signals]:
    """Keep back SIGCHLD and the ending signals within the block. Call it from the main thread.

    Unlike SIG_IGN, handlers are not inherited through exec, so a command gets the defaults. The
    signals are blocked so that `take` shows who sent each. SIGCHLD is reset because the parent may
    have set it to be ignored.
    """
    early: list[int] = []
    before = {number: signal.getsignal(number) for number in (*ENDING, signal.SIGCHLD)}
    heard = [number for number in ENDING if before[number] is not signal.SIG_IGN]
    awaited = frozenset({signal.SIGCHLD, *heard})
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in heard:
            signal.signal(number, lambda came, _: early.append(came))
        mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        try:
            yield Signals(awaited, frozenset(mask_before), early)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_command(
    command: Sequence[str],
    *,
    starting: AbstractContextManager[None] | None = None,
    identity: Identity | None = None,
    stdout_fd: int | None = None,
    on_start: Callable[[int], None] | None = None,
) -> int:
    """Run `command` (not through a shell) and return its exit code, 128 + N for signal N.

    It is started within `starting`. `identity` is the user to run it as, None for the current user.
    SIGTERM, SIGHUP and SIGINT are passed to the command while it runs; call this from the main
    thread. `stdout_fd` receives the command's standard output; `on_start` is called with its pid.
    Raises WritewiseError with exit code 127 or 126 if it cannot be started.
    """
    with signals_taken() as signals:
        with starting or nullcontext():
            pid = start_command(command, signals, identity, stdout_fd)
        if on_start:
            on_start(pid)
        return wait_for_command(pid, signals)


def start_command(
    command: Sequence[str],
    signals: Signals,
    identity: Identity | None = None,
    stdout_fd: int | None = None,
) -> int:
    """Start the command and return its pid.

    It inherits what this process inherited (streams, a shell's `<(…)`) but none of its own
    descriptors, which Python and the loader do not make inheritable. posix_spawn sets the command's
    signal mask: signals are blocked here before the command starts, so that the sender of each is
    known. Raises WritewiseError with exit code 127 or 126.
    """
    onto_stdout = [] if stdout_fd is None else [(os.POSIX_SPAWN_DUP2, stdout_fd, _STDOUT)]
    try:
        with identity.assumed() if identity else nullcontext():
            return os.posix_spawnp(
                command[0],
                list(command),
                identity.environment() if identity else os.environ,
                file_actions=onto_stdout,
                setsigmask=signals.mask_before,
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


def wait_for_command(pid: int, signals: Signals, beat: Poll | None = None) -> int:
    """Wait for the command's end and pass signals on, except Ctrl-C, which it receives itself.

    Returns its exit code. A signal from the terminal comes from the kernel, and also reaches the
    command.
    """
    for number in signals.early:  # they came before the command existed
        os.kill(pid, number)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return_code = os.waitstatus_to_exitcode(status)
            return return_code if return_code >= 0 else exit_codes.SIGNALLED - return_code
        came = signals.take(beat.interval_s if beat else None)
        if came is not None and came.si_signo in ENDING and not _is_ctrl_c(came):
            os.kill(pid, came.si_signo)
        if beat:
            beat.run()


def _is_ctrl_c(came: signal.struct_siginfo) -> bool:
    return came.si_signo == signal.SIGINT and came.si_code == _SI_KERNEL
