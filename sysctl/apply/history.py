"""What `apply` changed on this host before, as its journal has it; read, and nothing changed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.errors import WritewiseError
from sysctl.host.applied_host import AppliedHost, left_by_a_killed_run
from sysctl.host.changes import Change
from sysctl.host.host import WRITER, state_directory
from sysctl.host.lock import holder_of
from sysctl.host.system import System


@dataclass(frozen=True)
class History:
    """What is applied and not taken back, the oldest first.

    `temporary` says of each value that is not to stay whose it is: of a program at work, or of one
    that was killed. `problem` is why all that is not known (empty: it is), `hint` what to do.
    """

    changes: tuple[Change, ...] = ()
    temporary: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""


def read_history(system: System) -> History:
    """The journal's changes. What keeps it from being read is told, not raised."""
    try:
        directory = state_directory()
        owner = directory.stat().st_uid
    except FileNotFoundError:
        return History()
    except WritewiseError as error:
        return History(problem=error.message, hint=error.hint)
    except OSError as error:
        return History(problem=f"cannot look for the journal: {error.strerror}")
    if owner == 0 != os.geteuid():
        return History(problem="only root may read the journal")
    try:
        applied = tuple(AppliedHost(directory, system).applied())
        return History(applied, _temporary(directory, system))
    except WritewiseError as error:
        return History(problem=error.message, hint=error.hint)


def _temporary(directory: Path, system: System) -> tuple[str, ...]:
    holder = holder_of(directory / f"{WRITER}.lock")
    if holder:
        return (f"at work on this host, with values of its own for a while: {holder}",)
    left = left_by_a_killed_run(directory, system)
    return tuple(f"a killed run left what is taken back first: {change}" for change in left)
