"""What commands share: how S3 is reached, recovery at boot, one at a time, an end by a signal."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from sysctl.knobs.transfer import TRANSFER_BY_NAME

if TYPE_CHECKING:
    from profiler.pull.access import S3Access

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    """How S3 is reached and read; the same for every command that pulls."""
    parser.add_argument("--endpoint-url", metavar="URL", help="instead of AWS's own")
    parser.add_argument(
        "--no-sign-request", action="store_true", help="without credentials, for public buckets"
    )
    parser.add_argument(
        "--transfer",
        metavar="NAME=VALUE,…|FILE",
        default="",
        help=f"{', '.join(TRANSFER_BY_NAME)}; or a .json file that `transfer tune` wrote",
    )


def access_from(arguments: argparse.Namespace) -> S3Access:
    """How S3 is reached, as `add_access_arguments` has it."""
    from profiler.pull.access import S3Access

    return S3Access(arguments.endpoint_url, sign_requests=not arguments.no_sign_request)


def add_recovery_argument(parser: argparse.ArgumentParser) -> None:
    """That the unit which recovers at boot is installed, too."""
    parser.add_argument(
        "--install-recovery",
        action="store_true",
        help="install a unit that takes back at boot what a killed run left",
    )


@contextlib.contextmanager
def measuring_alone(purpose: str) -> Iterator[None]:
    """Nothing else of ours measures or changes this host meanwhile: by the lock of `sweep`.

    Root alone can take it. Raises LockedError, and HostError where a killed run's settings are
    still there: what only measures neither takes them for the host's own nor changes them.
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
    """SIGTERM and SIGHUP (a lost connection) end what runs in the context as Ctrl-C does.

    The first signal begins the end; later ones are ignored, so that none can tear the restore. The
    exit code is the one that a shell reports for the signal. What is ignored already (nohup) stays
    so.
    """
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _end) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is _end:  # else one came: none may tear what is left to do
                signal.signal(number, handler)
        for number in _SIGNALS:
            if signal.getsignal(number) is _ignore:
                signal.signal(number, signal.SIG_IGN)


def _end(number: int, _: FrameType | None) -> None:
    for later in _SIGNALS:
        if signal.getsignal(later) is not signal.SIG_IGN:
            signal.signal(later, _ignore)
    with contextlib.suppress(OSError):  # the terminal may have gone, and print() is not reentrant
        os.write(2, b"\nending in order, please wait\n")
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _ignore(_number: int, _: FrameType | None) -> None:
    """Do nothing; for a signal that is pending already, SIG_IGN would have Python print an error.

    `PyErr_CheckSignals()` as of CPython 3.11: "Signal %i ignored due to race condition".
    """
