# SPDX-License-Identifier: Apache-2.0
"""The process that governs while a command of `run --auto` runs.

It is a process of its own, so that a killed `run` leaves nothing raised: the pipe from its parent
then ends, and it restores the host. It has a session of its own (Ctrl-C is for the command) and no
open file of its parent. It holds the lock, which the command must not inherit.

If another governor holds the lock, it waits until that governor has ended, and then governs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contracts.shared.errors import WritewiseError
from profiler.govern.accounts import Accounts, Governed
from profiler.govern.loop import Changed, Loop
from profiler.govern.volumes import (
    NamedVolume,
    counts_every_group,
    opened_reader,
    opened_volumes,
)
from profiler.recording import privileges
from profiler.recording.stopping import Stop, stopped_by_signals
from profiler.running.draining import close_all_but, start_sync
from sysctl.govern.bounds import RaiseLimits, low_bound
from sysctl.govern.bursts import BurstAccount
from sysctl.govern.policy import Unhelped
from sysctl.host.holding import running
from sysctl.host.host import RUN, WRITER, state_directory
from sysctl.host.journal import private_directory
from sysctl.host.lock import LockedError, holder_of, shared_lock
from sysctl.host.raising_host import RaisingHost, governing
from sysctl.host.system import System

#: The parent's message: the command has returned; drain, restore and end.
DRAIN = b"d"
#: The beginning of a governor's purpose in the lock: that of the service, and of `run --auto`.
SERVICE, AUTO = "govern of ", "run --auto of "
_FOLLOW_S = 0.5


@dataclass(frozen=True)
class GovernRequest:
    """What is to be governed for a command; `are_named`: the user has named the volumes."""

    command: str
    volumes: Sequence[NamedVolume]
    limits: RaiseLimits
    are_named: bool

    @property
    def purpose(self) -> str:
        """The purpose in the lock."""
        return f"{AUTO}{self.command}"


def govern_beside(request: GovernRequest, commands: int, reports: int) -> None:
    """Govern in this forked process until the parent's pipe `commands` ends; send what happens."""
    os.setsid()
    os.chdir("/")
    close_all_but([commands, reports])
    send = _Sender(reports)
    try:
        with stopped_by_signals() as stop:
            _serve(request, _Parent(commands, stop), send)
    except WritewiseError as error:
        send({"error": error.message, "hint": error.hint})
    except OSError as error:
        send({"error": f"{error.filename or 'the governor'}: {error.strerror}", "hint": ""})


class _Sender:
    """Sends documents to the parent, one a line; a parent that is gone is no failure."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._descriptor, data) :]


class _Parent:
    """Waits for time to pass or for the parent's message; its end sets `stop`."""

    def __init__(self, commands: int, stop: Stop) -> None:
        self._commands, self.stop = commands, stop
        self._sync: int | None = None

    def wait(self, seconds: float) -> None:
        """Wait, at most until a message comes."""
        if self._sync is not None:
            if os.waitpid(self._sync, os.WNOHANG)[0]:
                self._sync = None  # its pid may be another process's from now on
                self.stop.set()
            select.select([], [], [], seconds)
        elif select.select([self._commands], [], [], seconds)[0]:
            if os.read(self._commands, 1) == DRAIN:
                self._sync = start_sync()
            else:
                self.stop.set()

    def end_sync(self) -> None:
        """End the wait for the devices."""
        if self._sync is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._sync, signal.SIGKILL)


def _serve(request: GovernRequest, parent: _Parent, send: _Sender) -> None:
    """Govern, or follow another governor until its end and then govern."""
    volumes, is_named = request.volumes, request.are_named
    presence = _presence(request.purpose)
    try:
        with opened_volumes(volumes, are_named=is_named) as (counted, debugfs):
            is_first = True
            while not parent.stop.is_set:
                try:
                    with governing(request.purpose) as host:
                        _govern(request, counted, debugfs, host, parent, send)
                    return
                except LockedError:
                    other = other_governor()
                    if other is None and is_first:
                        if _is_free():
                            continue
                        raise
                if is_first:
                    send({"followed": other, "volumes": [each.target for each in counted]})
                    is_first = False
                _follow(parent)
    finally:
        parent.end_sync()
        if presence is not None:
            os.close(presence)


def _presence(purpose: str) -> int | None:
    """Share the lock of runs: an upgrade of the package waits until nobody holds it."""
    directory = private_directory(state_directory())
    return shared_lock(directory / f"{RUN}.lock", purpose, System())


def other_governor() -> str | None:
    """Return who holds the lock, if that is a governor; None if it is somebody else, or nobody."""
    holder = holder_of(state_directory() / f"{WRITER}.lock")
    return holder if holder and holder.startswith((SERVICE, AUTO)) else None


def _is_free() -> bool:
    """Return whether nobody holds the lock or settings: whoever did has ended at this moment."""
    return holder_of(state_directory() / f"{WRITER}.lock") is None and not running()


def _follow(parent: _Parent) -> None:
    """Wait until nobody holds the lock, or the parent has ended."""
    path = state_directory() / f"{WRITER}.lock"
    parent.wait(_FOLLOW_S)
    while not parent.stop.is_set and holder_of(path) is not None:
        parent.wait(_FOLLOW_S)


def _govern(
    request: GovernRequest,
    volumes: Sequence[NamedVolume],
    debugfs: int,
    host: RaisingHost,
    parent: _Parent,
    send: _Sender,
) -> None:
    with opened_reader(volumes, debugfs) as reader:
        targets = [volume.target for volume in volumes]
        governed = Governed(request.purpose, targets, request.limits, reader.values())
        listener = _Listener(Accounts(governed, is_kept=True))
        send(
            {
                "volumes": targets,
                "recovered": list(host.recovered),
                "left": list(host.left),
                "counts_every_group": counts_every_group(volumes, debugfs),
                "low_bound": low_bound(request.limits, reader.read()),
            }
        )
        privileges.keep_only({privileges.DAC_READ_SEARCH})
        loop = Loop(reader.read_news, request.limits, listener, host, sleep=parent.wait)
        try:
            loop.run(parent.stop)
        finally:
            host.lower()
            listener.accounts.ended()
            send({"state": listener.accounts.state.to_json()})


class _Listener:
    """Passes what the loop reports to the accounts."""

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts

    def burst(self, account: BurstAccount) -> None:
        self.accounts.burst(account)

    def changed(self, changed: Changed) -> None:
        self.accounts.stood_down(changed.before, changed.after)

    def unhelped(self, burst: Unhelped) -> None:
        """Report nothing: without named writers no such burst is looked for."""

    def raised(self, is_raised: bool) -> None:
        self.accounts.raised(is_raised)

    def alive(self) -> None:
        self.accounts.beat()
