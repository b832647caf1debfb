"""Bring the originals back: of what a killed sweep or demo left, and of what was applied.

What somebody else changed since is told and left as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from contracts.shared.errors import WritewiseError

if TYPE_CHECKING:
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.host import Host

NAME = "rollback"
HELP = "bring the originals back, of what was applied or left by a killed run"
NEEDS = ("root",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to take back, and whether."""
    parser.add_argument("--dry-run", action="store_true", help="tell what would be restored")
    parser.add_argument(
        "--interrupted",
        action="store_true",
        help="only what a killed run left; what was applied stays",
    )
    parser.add_argument(
        "--trial",
        action="store_true",
        help="only if a trial period of `apply --for` is not over; its timer runs this",
    )
    parser.add_argument(
        "--give-up",
        action="store_true",
        help="forget what cannot be restored (a volume that is gone for good), and say what it was",
    )


def run(arguments: argparse.Namespace) -> int:
    """Restore, and say what was; 0 also when there was nothing to do."""
    from contracts.shared.text import printable
    from profiler.requirements import require

    require(*NEEDS)
    taken = _take_back(arguments)
    if taken is None:
        print("nothing to restore: there is no trial period any more; what was applied stays")
        return 0
    said = "would restore" if arguments.dry_run else "restored"
    for change in taken.changes:
        print(printable(f"{said}: {change}"))
    for sentence in taken.left:
        print(printable(f"left: {sentence}"))
    if taken.error is not None:
        raise taken.error
    if not taken.changes and not taken.left:
        why = "all is as it was before" if taken.had_journal else "no change is in the journal"
        print(f"nothing to restore: {why}")
    return 0


@dataclass
class _Taken:
    """What is restored, why something is not, and the first failure; the newest first."""

    had_journal: bool
    changes: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    error: WritewiseError | None = None

    def take(self, step: Callable[[], list[str]]) -> None:
        """One journal after the other: what fails in one keeps nothing of another from coming."""
        try:
            self.changes += step()
        except WritewiseError as error:
            if self.error is not None:
                error = WritewiseError(f"{self.error.message}; {error.message}", error.hint)
            self.error = error


def _take_back(arguments: argparse.Namespace) -> _Taken | None:
    """Restore; None, and nothing is done, if only a trial is to be ended and there is none."""
    from profiler.lab.lab import take_back_abandoned
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.host import WRITER, Host, state_directory

    with Host.lasting(WRITER, NAME) as host:  # until it is released nobody begins or ends a trial
        applied = AppliedHost(state_directory())
        if arguments.trial and not applied.has_trial():
            return None
        taken = _restore(host, applied, arguments)
    restored = len(taken.changes)
    taken.take(partial(take_back_abandoned, dry_run=arguments.dry_run))
    is_lab_gone = len(taken.changes) > restored
    if taken.error is not None and is_lab_gone and not arguments.dry_run:
        # what could not be restored may have been on the lab's volume, as after a power cut
        with Host.lasting(WRITER, NAME) as host:
            again = _restore(host, AppliedHost(state_directory()), arguments)
        taken.changes += again.changes
        taken.left, taken.error = again.left, again.error
    return taken


def _restore(host: Host, applied: AppliedHost, arguments: argparse.Namespace) -> _Taken:
    """What the sweep's journal has, and that of `apply`."""
    interrupted, give_up = arguments.interrupted, arguments.give_up
    taken = _Taken(host.has_pending() or applied.has_pending())
    if arguments.dry_run:
        taken.take(host.pending)
        taken.take(applied.interrupted if interrupted else applied.pending)
    else:
        undo = applied.recover if interrupted else applied.restore
        taken.take(partial(host.restore, give_up=give_up))
        taken.take(partial(undo, give_up=give_up))
    taken.left = [*host.left, *applied.left]
    return taken
