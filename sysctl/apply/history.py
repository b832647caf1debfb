# SPDX-License-Identifier: Apache-2.0
"""What `apply` has changed on this host, read from its journal without changing anything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.errors import WritewiseError
from sysctl.host.applied_host import AppliedHost, left_by_a_killed_run
from sysctl.host.changes import Change
from sysctl.host.holders import living
from sysctl.host.host import WRITER, state_directory
from sysctl.host.lock import holder_of
from sysctl.host.system import System


@dataclass(frozen=True)
class History:
    """What is applied and not reverted, the oldest first.

    `temporary` has a sentence for values that will not stay: those of a running program, or of one
    that was killed. `problem` is why the history is unknown, or ""; `hint` is what to do.
    """

    changes: tuple[Change, ...] = ()
    temporary: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""


def read_history(system: System) -> History:
    """Return the journal's changes. A failure to read it is in `problem`, not raised."""
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
        return (f"{holder} is running on this host and sets values temporarily",)
    held = [f"{run} sets {run.words} until it ends" for run in living(directory, system)]
    left = left_by_a_killed_run(directory, system)
    killed = [f"left by a killed run, will be reverted first: {change}" for change in left]
    return (*held, *killed)
