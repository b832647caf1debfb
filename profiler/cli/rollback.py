"""Bring the originals back: of what a killed sweep or demo left, and of what was applied.

What somebody else changed since is told and left as it is.
"""

from __future__ import annotations

import argparse

NAME = "rollback"
HELP = "bring the originals back, of what was applied or left by a killed run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to take back, and whether."""
    parser.add_argument("--dry-run", action="store_true", help="tell what would be restored")
    parser.add_argument(
        "--interrupted",
        action="store_true",
        help="only what a killed run left; what was applied stays",
    )
    parser.add_argument(
        "--give-up",
        action="store_true",
        help="forget what cannot be restored (a volume that is gone for good), and say what it was",
    )


def run(arguments: argparse.Namespace) -> int:
    """Restore, and say what was; 0 also when there was nothing to do."""
    from contracts.text import printable
    from profiler.requirements import NEEDED_BY, require

    require(*NEEDED_BY[NAME])
    changes, left = _take_back(arguments)
    said = "would restore" if arguments.dry_run else "restored"
    for change in changes:
        print(printable(f"{said}: {change}"))
    for sentence in left:
        print(printable(f"left: {sentence}"))
    if not changes and not left:
        print("nothing to restore: no change of this boot is in the journal")
    return 0


def _take_back(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """What is restored, and why something is not; the newest first."""
    from profiler.lab.lab import take_back_abandoned
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.host import WRITER, Host, state_directory

    with Host.lasting(WRITER, "rollback") as host:
        applied = AppliedHost(state_directory())
        interrupted, give_up = arguments.interrupted, arguments.give_up
        if arguments.dry_run:
            changes = host.pending()
            changes += applied.interrupted() if interrupted else applied.pending()
        else:
            changes = host.restore(give_up=give_up)
            changes += applied.recover() if interrupted else applied.restore(give_up=give_up)
    changes += take_back_abandoned(dry_run=arguments.dry_run)
    return changes, [*host.left, *applied.left]
