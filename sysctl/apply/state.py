"""What Writewise has changed on this host and still holds: for `writewise status`."""

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
from sysctl.host.host import WRITER, state_directory
from sysctl.host.lock import holder_of
from sysctl.host.system import System

_STAYING = (AppliedSysctls, AppliedKnobs, AppliedMount, WrittenFile)


@dataclass(frozen=True)
class AppliedItem:
    """One change that is to stay: what, and when it was made (ISO 8601)."""

    what: str
    at: str


@dataclass(frozen=True)
class AppliedState:
    """What is applied, the end of its trial period, our files, what a killed run left, who works.

    `interrupted` is what the next start takes back: nothing while somebody holds the lock, since
    those are changes at work. `trial_ends_at` and `lock_holder` are None where there is none.
    """

    applied: tuple[AppliedItem, ...]
    trial_ends_at: str | None
    files: tuple[str, ...]
    interrupted: tuple[str, ...]
    lock_holder: str | None


def read_state(system: System | None = None) -> AppliedState:
    """Look; nothing is changed and no lock is taken. Raises JournalError."""
    directory = state_directory()
    if not directory.exists():
        return AppliedState((), None, _files(system or System()), (), None)
    host = AppliedHost(directory, system)
    holder = holder_of(directory / f"{WRITER}.lock")
    changes = host.applied()
    trials = [c.ends_at for c in changes if isinstance(c, TrialPeriod) and c.restoring(host.system)]
    return AppliedState(
        applied=tuple(
            AppliedItem(str(each), each.at) for each in changes if isinstance(each, _STAYING)
        ),
        trial_ends_at=trials[-1] if trials else None,
        files=_files(host.system),
        interrupted=() if holder else left_by_a_killed_run(directory, system),
        lock_holder=holder,
    )


def _files(system: System) -> tuple[str, ...]:
    return tuple(path for path in persistence.PATHS if persistence.is_ours(system, path))
