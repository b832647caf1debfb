# SPDX-License-Identifier: Apache-2.0
"""Settings that are in force only while somebody holds them: of `writewise run`.

    with holding({"vm.dirty_ratio": "80"}, "make", change) as hold:   # change(host): AppliedHost
        …
                                       # the last holder that leaves restores the originals here

The changes are in a journal of their own (`run.journal`), each written before it is made, with the
original and the new value: a value that is neither was changed by somebody else, and is left. After
SIGKILL, with no other holder alive, the next writer or `writewise rollback` restores the originals.
The lock of every writer is held only to join and to leave. In between the holders' files
(`sysctl.host.holders`) keep other writers away.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from contracts.shared.errors import WritewiseError
from sysctl.host import holders
from sysctl.host.applied_host import AppliedHost, Now, utc_now
from sysctl.host.holders import Holder
from sysctl.host.host import RUN, WRITER, recover_killed, state_directory
from sysctl.host.journal import private_directory
from sysctl.host.lock import LockedError, exclusive_lock, shared_lock
from sysctl.host.signals import signals_held_back
from sysctl.host.system import System

#: What the purpose of this lock's holders begins with.
_PURPOSE = "run of "
#: Sets the settings on a host of the journal `run`.
Change = Callable[[AppliedHost], None]


class Hold:
    """One holder's part in settings that all holders share.

    `settings` are by name, as asked for: a holder with other ones cannot join. `command` is what
    runs under them, without secrets.
    """

    #: The other holders when this one joined; () if it was the first and set the settings.
    others: tuple[Holder, ...] = ()
    #: What killed programs had left: what was restored, and what was not because it was changed.
    recovered: Sequence[str] = ()
    left: Sequence[str] = ()
    #: What this one restored when it left as the last, and what it did not, in sentences.
    restored: Sequence[str] = ()
    not_restored: Sequence[str] = ()
    #: The holders that were still there when this one left, so that the settings stayed.
    remaining: tuple[Holder, ...] = ()

    def __init__(
        self,
        settings: Mapping[str, str],
        command: str,
        system: System | None = None,
        now: Now = utc_now,
    ) -> None:
        self._settings, self._command = dict(settings), command
        self._system, self._now = system or System(), now
        self._directory = private_directory(state_directory())
        self._me: Holder | None = None
        #: Held as long as the settings: an upgrade of the package waits for it.
        self.presence: int | None = None

    def join(self, change: Change) -> None:
        """Become a holder; the first one sets the settings with `change`, or none of them.

        Raises LockedError if another program changes this host or holds other settings.
        """
        with self._locked(patient_with=_PURPOSE), signals_held_back():
            self.presence = shared_lock(self._lock(RUN), self._purpose, self._system)
            self.others = holders.living(self._directory, self._system)
            if self.others:
                self._check_same(self.others[0])
                self._me = self._enter()
            else:
                self._begin(change)

    def _begin(self, change: Change) -> None:
        holders.require_none(self._directory, self._system)
        self.recovered, self.left = recover_killed(self._directory, system=self._system)
        self._me = self._enter()
        host = self._host()
        try:
            change(host)
        except BaseException:
            host.restore()
            holders.leave(self._directory, self._me)
            self._me = None
            raise

    def _check_same(self, other: Holder) -> None:
        if dict(other.settings) != self._settings:
            raise LockedError(
                f"other settings are in force on this host: {other}, with {other.words}",
                "wait until it ends, or pass the same settings to join it",
            )

    def _enter(self, *, is_draining: bool = False) -> Holder:
        me = Holder(
            pid=os.getpid(),
            start_ticks=self._system.process_start_ticks(os.getpid()) or 0,
            boot_id=self._system.boot_id(),
            command=self._command,
            since=self._now().isoformat(timespec="seconds"),
            settings=self._settings,
            is_draining=is_draining,
        )
        holders.enter(self._directory, me)
        return me

    def drain(self) -> None:
        """Mark this holder as one whose command has returned; a full disk is no failure."""
        if self._me is not None:
            with contextlib.suppress(WritewiseError), self._locked():
                me = replace(self._me, is_draining=True)
                holders.enter(self._directory, me)
                self._me = me

    def take_over(self) -> bool:
        """Take a forked child's parent's place; return False if the parent no longer holds it.

        To be called in the child. The parent then calls `hand_over`.
        """
        with self._locked():
            before = self._me
            if before is None or not holders.is_entered(self._directory, before):
                self._me = None
                return False
            self._me = self._enter(is_draining=True)
            holders.leave(self._directory, before)
        return True

    def hand_over(self) -> None:
        """Leave without a restore: a child has taken this holder's place."""
        self._me = None
        self._close()

    def leave(self) -> None:
        """Leave; the last one restores the originals. Nothing happens if it was called before.

        Raises HostError if not everything could be restored.
        """
        if self._me is None:
            self._close()
            return
        with signals_held_back(), self._locked():
            alive = holders.living(self._directory, self._system)
            self.remaining = tuple(each for each in alive if each.pid != self._me.pid)
            if not self.remaining:
                self._restore()
            holders.leave(self._directory, self._me)
            self._me = None
            self._close()

    def _close(self) -> None:
        if self.presence is not None:
            os.close(self.presence)
            self.presence = None

    def _restore(self) -> None:
        host = self._host()
        self.restored = host.restore()
        self.not_restored = host.left

    def changed_since(self) -> list[str]:
        """Return a sentence for each setting that another program has changed since."""
        return self._host().changed_since()

    def _host(self) -> AppliedHost:
        return AppliedHost(self._directory, self._system, self._now, name=RUN)

    @contextlib.contextmanager
    def _locked(self, patient_with: str = "") -> Iterator[None]:
        """Hold the lock of every writer; wait for whoever else holds it for a moment.

        While somebody holds settings, that is everybody. Else it is those who join or leave.
        """
        lock = self._lock(WRITER)
        with exclusive_lock(lock, self._purpose, self._system, patient_with=patient_with):
            yield

    def _lock(self, name: str) -> Path:
        return self._directory / f"{name}.lock"

    @property
    def _purpose(self) -> str:
        return f"{_PURPOSE}{self._command}"


@contextlib.contextmanager
def holding(
    settings: Mapping[str, str],
    command: str,
    change: Change,
    system: System | None = None,
    now: Now = utc_now,
) -> Iterator[Hold]:
    """Hold settings during the block. Raises LockedError and HostError (`Hold.join`)."""
    hold = Hold(settings, command, system, now)
    try:
        try:
            hold.join(change)
            yield hold
        finally:
            hold.leave()
    finally:
        hold.leave()  # needed only if a signal came just before the first call


def running(system: System | None = None) -> tuple[Holder, ...]:
    """Return the living holders, without the lock. Raises HostError."""
    directory: Path = state_directory()
    return holders.living(directory, system or System()) if directory.exists() else ()
