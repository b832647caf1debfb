# SPDX-License-Identifier: Apache-2.0
"""Restore what was applied on this host, and what a killed sweep or demo changed.

What somebody else has changed since is printed and left as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from contracts.shared.errors import WritewiseError
from profiler.cli import options
from profiler.cli.json_documents import emit
from profiler.cli.parser import rare
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.host import Host

NAME = "rollback"
HELP = "restore what was applied, or what a killed run changed"
NEEDS = ("root",)
IS_REMEMBERED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to restore, and whether to ask."""
    parser.add_argument("--dry-run", action="store_true", help="print what would be restored")
    parser.add_argument(
        "--interrupted",
        action="store_true",
        help="restore only what a killed run left; what was applied stays",
    )
    parser.add_argument(
        "--give-up",
        action="store_true",
        help="forget what cannot be restored (on a volume that is gone for good) and print it",
    )
    rare(
        parser.add_argument(
            "--trial",
            action="store_true",
            help="do nothing unless a trial of `writewise apply --for` is running; its timer "
            "runs this",
        )
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Restore and report it; return 0 also if there was nothing to do."""
    from profiler.report.history import rollback_outcome
    from profiler.requirements import require

    require(*NEEDS)
    taken = _take_back(arguments)
    if taken is not None:
        remember(arguments, *rollback_outcome(taken.changes, taken.left))
    if arguments.json:
        _emit(taken or _Taken(had_journal=False), dry_run=arguments.dry_run)
    else:
        _print(taken, dry_run=arguments.dry_run)
    if taken is not None and taken.error is not None:
        raise taken.error
    return 0


def _emit(taken: _Taken, *, dry_run: bool) -> None:
    error = taken.error
    content = {
        "dry_run": dry_run,
        "restored": taken.changes,
        "left": taken.left,
        "error": error.message if error else None,
        "hint": error.hint or None if error else None,
    }
    emit(NAME, content)


def _print(taken: _Taken | None, *, dry_run: bool) -> None:
    from contracts.shared.text import printable

    if taken is None:
        print("nothing to restore: there is no trial period any more; what was applied stays")
        return
    verb = "would restore" if dry_run else "restored"
    for change in taken.changes:
        print(printable(f"{verb}: {change}"))
    for sentence in taken.left:
        print(printable(f"left: {sentence}"))
    if not taken.changes and not taken.left and taken.error is None:
        why = "all is as it was before" if taken.had_journal else "no change is in the journal"
        print(f"nothing to restore: {why}")


class _Taken:
    """What was restored, what was not and why, and the first failure; newest first."""

    def __init__(self, *, had_journal: bool) -> None:
        self.had_journal = had_journal
        self.changes: list[str] = []
        self.left: list[str] = []
        self.error: WritewiseError | None = None

    def take(self, step: Callable[[], list[str]]) -> None:
        """Restore one journal; a failure does not stop the restore of other journals."""
        try:
            self.changes += step()
        except WritewiseError as error:
            if self.error is not None:
                error = WritewiseError(f"{self.error.message}; {error.message}", error.hint)
            self.error = error


def _take_back(arguments: argparse.Namespace) -> _Taken | None:
    """Restore; return None and do nothing if only a trial is to end and there is none."""
    from profiler.lab.lab import take_back_abandoned
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.host import WRITER, Host, state_directory

    # LockedError while a `writewise run` holds settings: they are not taken away from its command
    with Host.lasting(WRITER, NAME) as host:  # holds off other trials' begin and end
        applied = AppliedHost(state_directory())
        if arguments.trial and not applied.has_trial():
            return None
        taken = _restore(host, applied, arguments)
    restored = len(taken.changes)
    taken.take(partial(take_back_abandoned, dry_run=arguments.dry_run))
    is_lab_gone = len(taken.changes) > restored
    if taken.error is not None and is_lab_gone and not arguments.dry_run:
        # what could not be restored may be on the lab's volume, for example after a power cut
        with Host.lasting(WRITER, NAME) as host:
            again = _restore(host, AppliedHost(state_directory()), arguments)
        taken.changes += again.changes
        taken.left, taken.error = again.left, again.error
    return taken


def _restore(host: Host, applied: AppliedHost, arguments: argparse.Namespace) -> _Taken:
    """Restore from the journals of `govern`, `run`, the sweep and `apply`, the newest first."""
    from sysctl.host.host import RUN, Host, raised_by_a_killed_governor

    interrupted, give_up = arguments.interrupted, arguments.give_up
    governor = raised_by_a_killed_governor(host.system)
    killed = [Host(host.directory, RUN, host.system), host]
    killed = [governor, *killed] if governor else killed
    taken = _Taken(had_journal=any(each.has_pending() for each in (*killed, applied)))
    if arguments.dry_run:
        for each in killed:
            taken.take(each.pending)
        taken.take(applied.interrupted if interrupted else applied.pending)
    else:
        for each in killed:
            taken.take(partial(each.restore, give_up=give_up))
        undo = applied.recover if interrupted else applied.restore
        taken.take(partial(undo, give_up=give_up))
    taken.left = [sentence for each in (*killed, applied) for sentence in each.left]
    return taken
