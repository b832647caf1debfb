# SPDX-License-Identifier: Apache-2.0
"""Thresholds raised for a burst: the journal is in memory, and the lock is that of every writer.

    with governing("govern of /data") as host:   # restores what killed programs left
        host.raise_thresholds(expected, 2 * 2**30, backgrounds)
        host.set_background(backgrounds[3])
        host.lower()
                                                 # lowered here, whatever happens

The journal is on a file system in memory (/run): a throttled disk cannot delay a raise, and a boot
resets the sysctls and the journal alike. After SIGKILL the next program that changes this host, or
`writewise rollback`, restores the originals.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from sysctl.host.applied_host import AppliedHost
from sysctl.host.host import GOVERN, WRITER, Host, runtime_directory, state_directory
from sysctl.host.raised import RaisedThresholds
from sysctl.host.sysctls import read_writeback, write_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR, THRESHOLDS


class ChangedError(HostError):
    """Another program has changed a threshold, so nothing is raised."""


class RaisingHost(Host):
    """The host as the governor changes it: raised thresholds, and nothing else."""

    def __init__(self, system: System | None = None) -> None:
        super().__init__(runtime_directory(), GOVERN, system)

    def thresholds(self) -> dict[str, int]:
        """Return the threshold sysctls in force: the non-zero member of each pair."""
        present = read_writeback(self.system)
        return {name: value for name, value in present.items() if name in THRESHOLDS}

    def raise_thresholds(
        self, expected: Mapping[str, int], dirty_bytes: int, backgrounds: Sequence[int]
    ) -> None:
        """Raise the dirty threshold; `backgrounds` are those that may be set until `lower`.

        Raises ChangedError if the values in force are not the `expected` ones, and HostError if the
        kernel refuses the value.
        """
        if self.thresholds() != dict(expected):
            raise ChangedError("another program has changed a threshold; nothing was raised")
        self._record(RaisedThresholds(dict(expected), dirty_bytes, tuple(backgrounds)))
        write_writeback(self.system, {DIRTY_PAIR[1]: dirty_bytes})

    def set_background(self, size_bytes: int | None) -> None:
        """Set the background threshold during a raise; None is the host's own.

        Raises HostError if there is no raise, or if the value was not announced.
        """
        raised = next(self._pending_of(RaisedThresholds), None)
        if raised is None or (size_bytes is not None and size_bytes not in raised.backgrounds):
            raise HostError(f"{BACKGROUND_PAIR[1]} = {size_bytes} is not in the journal")
        own = {name: value for name, value in raised.originals.items() if name in BACKGROUND_PAIR}
        wanted = own if size_bytes is None else {BACKGROUND_PAIR[1]: size_bytes}
        write_writeback(self.system, wanted)

    def lower(self) -> list[str]:
        """Restore the host's own thresholds; return a sentence for each that others changed."""
        self.left = ()
        self.restore()
        return list(self.left)


@contextlib.contextmanager
def governing(purpose: str, system: System | None = None) -> Iterator[RaisingHost]:
    """Hold the lock of every writer; first restore what killed programs left.

    Raises LockedError at once if another program holds the lock, and HostError during a trial of
    `apply --for`, whose end needs the lock.
    """
    with Host.exclusive(WRITER, purpose, system) as writer:
        if AppliedHost(state_directory(), system).has_trial():
            raise HostError(
                "a trial of `writewise apply --for` is running, and its end needs the lock",
                "wait until it ends, or end it with `writewise rollback`",
            )
        host = RaisingHost(system)
        host.recovered, host.left = writer.recovered, writer.left
        try:
            try:
                yield host
            finally:
                host.restore()
        finally:
            host.restore()  # needed only if a signal came just before the first call
