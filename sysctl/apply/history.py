"""What `apply` changed on this host before, as its journal has it; read, and nothing changed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from contracts.errors import WritewiseError
from sysctl.host.applied_host import AppliedHost
from sysctl.host.changes import Change
from sysctl.host.host import state_directory
from sysctl.host.system import System


@dataclass(frozen=True)
class History:
    """What is applied and not taken back, the oldest first.

    `problem` is why that is not known (empty: it is), `hint` what to do about it.
    """

    changes: tuple[Change, ...] = ()
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
        return History(tuple(AppliedHost(directory, system).applied()))
    except WritewiseError as error:
        return History(problem=error.message, hint=error.hint)
