# SPDX-License-Identifier: Apache-2.0
"""What Writewise has changed on this host and not reverted: for `writewise status`."""

from __future__ import annotations

from dataclasses import dataclass

from sysctl.apply import persistence
from sysctl.host.applied import (
    AppliedKnobs,
    AppliedMount,
    AppliedSysctls,
    TrialPeriod,
    WrittenFile,
)
from sysctl.host.applied_host import AppliedHost, left_by_a_killed_run
from sysctl.host.governor_state import GovernorState, read_governor_state
from sysctl.host.holders import Holder, living
from sysctl.host.host import WRITER, state_directory
from sysctl.host.lock import holder_of
from sysctl.host.system import System

_STAYING = (AppliedSysctls, AppliedKnobs, AppliedMount, WrittenFile)


@dataclass(frozen=True)
class AppliedItem:
    """One applied change, and when it was made (ISO 8601)."""

    what: str
    at: str


@dataclass(frozen=True)
class AppliedState:
    """The applied changes, the end of their trial period, our files, and running programs.

    `interrupted` are changes of a killed run that the next start reverts; none while a program
    holds the lock, because they may be its own. `trial_ends_at` and `lock_holder` may be None.
    `runs` hold settings while their commands run. `governor` is what the last governor wrote, None
    if none has since the boot.
    """

    applied: tuple[AppliedItem, ...]
    trial_ends_at: str | None
    files: tuple[str, ...]
    interrupted: tuple[str, ...]
    lock_holder: str | None
    runs: tuple[Holder, ...] = ()
    governor: GovernorState | None = None
    is_governor_running: bool = False


def read_state(system: System | None = None) -> AppliedState:
    """Return the state without changes and without the lock. Raises JournalError."""
    directory = state_directory()
    if not directory.exists():
        return AppliedState((), None, _files(system or System()), (), None)
    host = AppliedHost(directory, system)
    holder = holder_of(directory / f"{WRITER}.lock")
    changes, governor = host.applied(), read_governor_state()
    trials = [c.ends_at for c in changes if isinstance(c, TrialPeriod) and c.restoring(host.system)]
    return AppliedState(
        applied=tuple(
            AppliedItem(str(each), each.at) for each in changes if isinstance(each, _STAYING)
        ),
        trial_ends_at=trials[-1] if trials else None,
        files=_files(host.system),
        interrupted=() if holder else left_by_a_killed_run(directory, system),
        lock_holder=holder,
        runs=living(directory, host.system),
        governor=governor,
        is_governor_running=governor is not None and governor.is_running(host.system),
    )


def _files(system: System) -> tuple[str, ...]:
    return tuple(path for path in persistence.PATHS if persistence.is_ours(system, path))
