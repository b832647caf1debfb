"""Take back what a sweep or demo that was killed left changed on this host, from its journal."""

from __future__ import annotations

import argparse

NAME = "rollback"
HELP = "restore the host after a sweep or demo that was killed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--dry-run` alone."""
    parser.add_argument("--dry-run", action="store_true", help="tell what would be restored")


def run(arguments: argparse.Namespace) -> int:
    """Restore, and say what was; 0 also when there was nothing to do."""
    from profiler.requirements import NEEDED_BY, require

    require(*NEEDED_BY[NAME])
    from profiler.lab.lab import take_back_abandoned
    from profiler.study import LOCK_NAME
    from sysctl.host.host import Host

    with Host.lasting(LOCK_NAME, "rollback") as host:
        changes = host.pending() if arguments.dry_run else host.restore()
    changes += take_back_abandoned(dry_run=arguments.dry_run)
    said = "would restore" if arguments.dry_run else "restored"
    for change in changes:
        print(f"{said}: {change}")
    if not changes:
        print("nothing to restore: no change of this boot is in the journal")
    return 0
