# SPDX-License-Identifier: Apache-2.0
"""Shared by commands: access to S3, recovery at boot, one run at a time, ends by signals."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import weakref
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profiler.pull.access import S3Access
    from profiler.study.request import StudyRequest

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def access_from(arguments: argparse.Namespace) -> S3Access:
    """Return how S3 is reached, from the options of `options.add_access`."""
    from profiler.pull.access import S3Access

    return S3Access(
        arguments.endpoint_url,
        sign_requests=not arguments.no_sign_request,
        region=arguments.region,
        profile=arguments.profile,
    )


def show_dry_run(request: StudyRequest, command: str, *, as_json: bool) -> int:
    """Print what a sweep would do, without doing it."""
    from profiler.cli.json_documents import emit
    from profiler.report.console import plain_console
    from profiler.report.dry_run import dry_run_document, print_dry_run
    from profiler.study.dry_run import dry_run

    found = dry_run(request)
    if as_json:
        emit("sweep --dry-run", {"command": command, **dry_run_document(found)})
    else:
        print_dry_run(found, plain_console())
    return 0


@contextlib.contextmanager
def measuring_alone(purpose: str) -> Iterator[None]:
    """Hold the lock of `sweep`, so that no other run measures or changes this host.

    Only root can take it. Raises LockedError, and HostError if a killed run's settings are still in
    force: a mere measurement must neither take them for the host's own nor change them.
    """
    from sysctl.host.applied_host import left_by_a_killed_run
    from sysctl.host.host import WRITER, Host
    from sysctl.host.system import HostError

    if os.geteuid():
        yield
        return
    with Host.lasting(WRITER, purpose) as host:
        left = left_by_a_killed_run(host.directory)
        if left:
            raise HostError(
                f"a killed run left changes on this host: {'; '.join(left)}",
                "run `writewise rollback --interrupted` first",
            )
        yield


@contextlib.contextmanager
def terminable(numbers: Sequence[signal.Signals] = _SIGNALS) -> Iterator[None]:
    """Let SIGTERM and SIGHUP (a lost connection) end the context like Ctrl-C.

    The first signal begins the end; later ones are ignored, so that they cannot interrupt the
    restore. The exit code is the one that a shell reports for the signal. Signals that are already
    ignored (nohup) stay ignored.
    """
    end = _End()
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end.begin) for number in heard}
    try:
        yield
    finally:
        end.is_over = True
        for number, handler in before.items():
            if signal.getsignal(number) == end.begin:  # else one came: ignore more
                signal.signal(number, handler)
        for number in _SIGNALS:
            if signal.getsignal(number) is _ignore:
                signal.signal(number, signal.SIG_IGN)


class _Terminated(SystemExit):
    """A signal other than SIGINT. (Python's built-in classes have no weak references.)"""


class _Interrupted(KeyboardInterrupt):
    """SIGINT."""


class _End:
    """The end of a program by a signal, as an exception.

    C code may drop an exception that a signal handler raises: 1 of 150 SIGTERMs during the import
    of boto3 was lost (CPython 3.11). So an exception that is freed while the context goes on is
    raised again.
    """

    _AGAIN_S = 0.01

    def __init__(self) -> None:
        self.is_over = False
        self._reference: weakref.ref[BaseException] | None = None

    def begin(self, number: int, _: FrameType | None) -> None:
        """Raise the exception, and ignore later signals."""
        for later in _SIGNALS:
            if signal.getsignal(later) is not signal.SIG_IGN:
                signal.signal(later, _ignore)
        with contextlib.suppress(OSError):  # the terminal may be gone; print() is not reentrant
            os.write(2, b"\nending in order, please wait\n")
        self._raise(number)

    def _raise(self, number: int) -> None:
        is_sigint = number == signal.SIGINT
        error = _Interrupted() if is_sigint else _Terminated(128 + number)
        self._reference = weakref.ref(error, lambda _: self._was_freed(number))
        try:
            raise error
        finally:
            del error  # else this frame would keep it alive

    def _was_freed(self, number: int) -> None:
        if not self.is_over:
            signal.signal(signal.SIGALRM, lambda *_: self._once_more(number))
            signal.setitimer(signal.ITIMER_REAL, self._AGAIN_S)

    def _once_more(self, number: int) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if not self.is_over:
            self._raise(number)


def _ignore(_number: int, _: FrameType | None) -> None:
    """Do nothing; with SIG_IGN Python would print an error for a signal that is already pending.

    `PyErr_CheckSignals()` as of CPython 3.11: "Signal %i ignored due to race condition".
    """
