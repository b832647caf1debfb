"""Apply a recommendation to this host: shows the difference, asks, and can be rolled back.

Every change is journaled first and read back. An error, Ctrl-C or a kill in between leaves the host
as it was; `writewise rollback` brings the originals back at any time.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli.common import add_recovery_argument, terminable

if TYPE_CHECKING:
    from rich.console import Console

    from sysctl.apply.applying import Options
    from sysctl.apply.plan import ApplyPlan
    from sysctl.change.recommendation import RecommendedChange
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.system import System

NAME = "apply"
HELP = "apply a recommendation to this host, for good or on trial"
NEEDS = ("root",)

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_MAX_TRIAL_S = 7 * 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to apply, and for how long."""
    from profiler.cli import argument_types as types

    parser.add_argument(
        "recommendation", metavar="RECOMMENDATION", type=Path, help="of advise, or results of sweep"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the difference and stop")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--yes-unmeasured",
        action="store_true",
        help="do not ask whether to apply what was measured with other memory",
    )
    parser.add_argument(
        "--as-ratio",
        action="store_true",
        help="with other memory, keep the measured percentages, not the amounts",
    )
    parser.add_argument(
        "--max-at-risk",
        metavar="SIZE",
        type=types.size,
        help="refuse a dirty threshold above it on this host, such as 1GiB",
    )
    parser.add_argument(
        "--persist", action="store_true", help="write a file in /etc/sysctl.d too, for each boot"
    )
    parser.add_argument(
        "--for",
        dest="trial_s",
        metavar="30m",
        type=_period,
        help="a trial: the originals return by themselves after it",
    )
    parser.add_argument(
        "--mounts", action="store_true", help="remount too, where a remount changes the options"
    )
    add_recovery_argument(parser)


def _period(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,6})(s|m|min|h|d)", text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 0 < seconds <= _MAX_TRIAL_S:
        raise argparse.ArgumentTypeError("give a time such as 90s, 30m or 2h, at most 7d")
    return seconds


@dataclass(frozen=True)
class Agreed:
    """What the flags say yes to: to apply, and to apply what was never measured on such a host."""

    apply: bool
    unmeasured: bool


def run(arguments: argparse.Namespace) -> int:
    """Apply; 0 when it is in force, 1 when the answer was no."""
    from contracts.shared.errors import UsageError
    from profiler.cli.change_source import read_change
    from profiler.report.console import plain_console
    from sysctl.apply.applying import Options

    if arguments.persist and arguments.trial_s is not None:
        raise UsageError("--persist is for good and --for is for a while", "give one of the two")
    change = read_change(arguments.recommendation, trusted=not arguments.dry_run)
    console = plain_console()
    options = Options(
        persist=arguments.persist,
        mounts=arguments.mounts,
        trial_s=arguments.trial_s,
        install_recovery=arguments.install_recovery,
        as_ratio=arguments.as_ratio,
        max_at_risk_bytes=arguments.max_at_risk,
    )
    if arguments.dry_run:
        return _dry_run(change, options, console)
    agreed = Agreed(apply=arguments.yes, unmeasured=arguments.yes_unmeasured)
    return _apply(change, options, console, agreed)


def _dry_run(change: RecommendedChange, options: Options, console: Console) -> int:
    from contracts.shared.text import printable
    from sysctl.apply.history import read_history
    from sysctl.host.system import System

    system = System()
    plan = _show(system, change, options, console)
    if plan.fitted.unmeasured:
        print("\napplying it takes a second yes, or --yes-unmeasured")
    for sentence in read_history(system).temporary:
        print(printable(f"\n{sentence}"))
    print("\nnothing was changed (--dry-run)")
    return 0


def _apply(change: RecommendedChange, options: Options, console: Console, agreed: Agreed) -> int:
    from contracts.shared.errors import UsageError
    from profiler.requirements import require
    from sysctl.host.applied_host import applying

    require(*NEEDS)
    if not agreed.apply and (sys.stdin is None or not sys.stdin.isatty()):
        raise UsageError(
            "nobody can be asked here, and nothing is changed without",
            "give --yes, or --dry-run to see the difference alone",
        )
    with terminable(), applying("apply") as host:
        for text in host.recovered:
            print(f"restored after a killed run: {text}")
        for text in host.left:
            print(f"left: {text}")
        plan = _show(host.system, change, options, console)
        if not _is_agreed(plan, agreed):
            print("nothing was changed")
            return 1
        _perform(host, plan, options)
    return 0


def _is_agreed(plan: ApplyPlan, agreed: Agreed) -> bool:
    """Ask what the flags leave open. Raises UsageError where nobody is to be asked."""
    from contracts.shared.errors import UsageError

    unmeasured = plan.fitted.unmeasured
    if agreed.apply and unmeasured and not agreed.unmeasured:
        raise UsageError(
            unmeasured, "to apply it all the same, give --yes-unmeasured too, or sweep on this host"
        )
    if not agreed.apply and not agrees("Apply this?"):
        return False
    return (
        not unmeasured
        or agreed.unmeasured
        or agrees("Nothing was measured on such a host. Apply it all the same?")
    )


def _show(
    system: System, change: RecommendedChange, options: Options, console: Console
) -> ApplyPlan:
    """Print the difference and what would override it; refuses here what cannot be done."""
    from profiler.report.applying import print_persisted_file, print_plan
    from sysctl.apply.applying import check
    from sysctl.apply.history import read_history
    from sysctl.apply.persistence import persisted_file
    from sysctl.apply.plan import plan_of

    plan = plan_of(
        system, change, as_ratio=options.as_ratio, max_at_risk_bytes=options.max_at_risk_bytes
    )
    check(system, plan, options)
    print_plan(plan, console, remounts=options.mounts)
    if options.persist:
        file = persisted_file(system, plan.fitted.change, read_history(system))
        print_persisted_file(file, console)
    return plan


def agrees(question: str) -> bool:
    """Ask on the terminal; whatever is not a clear yes is a no."""
    try:
        return input(f"\n{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, ValueError):  # ValueError: what was typed is no text
        return False


def _perform(host: AppliedHost, plan: ApplyPlan, options: Options) -> None:
    from profiler.report.applying import changed_names
    from sysctl.apply.applying import perform

    print()
    for sentence in perform(host, plan, options):
        print(sentence)
    names = changed_names(plan)
    if names:
        print(f"applied and read back: {', '.join(names)}")
    else:
        print("every value was in force already")
    print("to undo: writewise rollback    to check: writewise verify --applied")
