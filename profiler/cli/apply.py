# SPDX-License-Identifier: Apache-2.0
"""Show what a recommendation changes on this host, ask, and apply it.

Every change is journaled first and read back. An error, Ctrl-C or a kill in between leaves the host
as it was; `writewise rollback` restores the original values at any time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from contracts.shared.text import quoted
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.common import terminable
from profiler.cli.json_documents import emit
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from sysctl.apply.applying import Options
    from sysctl.apply.persistence import PersistedFile
    from sysctl.apply.plan import ApplyPlan
    from sysctl.change.recommendation import RecommendedChange
    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.system import System

NAME = "apply"
HELP = "apply a recommendation to this host"
NEEDS = ("root",)
IS_REMEMBERED = True

_MAX_TRIAL_S = 7 * 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to apply, and for how long."""
    parser.add_argument(
        "recommendation",
        metavar="RECOMMENDATION",
        type=types.file,
        help="recommendation.json of `writewise advise`, or results of `writewise sweep`",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the difference and stop")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument(
        "--for",
        dest="trial_s",
        metavar="DURATION",
        type=_period,
        help="apply on trial: the original values return after DURATION, such as 30m",
    )
    parser.add_argument(
        "--persist", action="store_true", help="also write a file in /etc/sysctl.d for every boot"
    )
    parser.add_argument(
        "--mounts", action="store_true", help="also remount, if a remount can change the options"
    )
    options.add_bound(parser)
    options.add_other_memory(
        parser, "do not ask whether to apply what was measured with a different memory size"
    )
    options.add_install_recovery(parser)
    options.add_json(parser)


def _period(text: str) -> int:
    seconds = types.any_duration(text) // 10**9
    if not 0 < seconds <= _MAX_TRIAL_S:
        raise argparse.ArgumentTypeError(
            f"invalid duration {quoted(text)}; use 1s to 7d, such as 90s, 30m or 2h"
        )
    return seconds


class Agreed(NamedTuple):
    """What the flags agree to: to apply, and to apply what was never measured on such a host."""

    apply: bool
    unmeasured: bool


def run(arguments: argparse.Namespace) -> int:
    """Apply; return 0 if it is in force, 1 if the answer was no."""
    from contracts.shared.errors import UsageError
    from profiler.cli.change_source import read_change
    from sysctl.apply.applying import Options

    if arguments.persist and arguments.trial_s is not None:
        raise UsageError("--persist and --for cannot be used together", "pass only one of them")
    change = read_change(arguments.recommendation, trusted=not arguments.dry_run)
    how = Options(
        persist=arguments.persist,
        mounts=arguments.mounts,
        trial_s=arguments.trial_s,
        install_recovery=arguments.install_recovery,
        as_ratio=arguments.as_ratio,
        max_at_risk_bytes=arguments.max_at_risk,
    )
    if arguments.dry_run:
        return _dry_run(change, how, as_json=arguments.json)
    agreed = Agreed(apply=arguments.yes, unmeasured=arguments.yes_unmeasured)
    return _apply(arguments, change, how, agreed)


def _dry_run(change: RecommendedChange, how: Options, *, as_json: bool) -> int:
    from profiler.report.console import plain_console, print_lines
    from sysctl.apply.history import read_history
    from sysctl.host.system import System

    system = System()
    plan, file = _planned(system, change, how)
    temporary = read_history(system).temporary
    if as_json:
        _emit(plan, file, temporary=list(temporary))
        return 0
    _show(plan, file, how)
    if plan.fitted.unmeasured:
        print("\nApply asks a second time, unless you pass --yes-unmeasured.")
    for sentence in temporary:
        print_lines(["", sentence], plain_console())
    print("\nNothing was changed (--dry-run).")
    return 0


def _apply(
    arguments: argparse.Namespace, change: RecommendedChange, how: Options, agreed: Agreed
) -> int:
    from contracts.shared.errors import UsageError
    from profiler.report.history import apply_outcome
    from profiler.requirements import require
    from sysctl.apply.applying import perform
    from sysctl.host.applied_host import applying

    as_json = arguments.json
    require(*NEEDS)
    if not agreed.apply and (as_json or sys.stdin is None or not sys.stdin.isatty()):
        raise UsageError(
            "no terminal to ask for confirmation; nothing was changed",
            "pass --yes to apply, or --dry-run to see the difference",
        )
    with terminable(), applying("apply") as host:
        for text in host.recovered if not as_json else ():
            print(f"restored after a killed run: {text}")
        for text in host.left if not as_json else ():
            print(f"left: {text}")
        plan, file = _planned(host.system, change, how)
        if not as_json:
            _show(plan, file, how)
        if not _is_agreed(plan, agreed):
            print("nothing was changed")
            return 1
        done = perform(host, plan, how)
        remember(arguments, *apply_outcome(plan, done))
        if as_json:
            _emit(plan, file, host=host, done=done)
        else:
            _tell(plan, done)
    return 0


def _emit(
    plan: ApplyPlan,
    file: PersistedFile | None,
    *,
    host: AppliedHost | None = None,
    done: Sequence[str] = (),
    temporary: Sequence[str] = (),
) -> None:
    """Print the document; without `host` it is of a dry run."""
    from profiler.report.applying_document import plan_document

    content = {
        "dry_run": host is None,
        "applied": host is not None,
        "recovered": list(host.recovered) if host else [],
        "not_restored": list(host.left) if host else [],
        **plan_document(plan, file),
        "temporary": list(temporary),
        "done": list(done),
    }
    emit(NAME, content)


def _is_agreed(plan: ApplyPlan, agreed: Agreed) -> bool:
    """Ask what the flags leave open. Raises UsageError if nobody can be asked."""
    from contracts.shared.errors import UsageError

    unmeasured = plan.fitted.unmeasured
    if agreed.apply and unmeasured and not agreed.unmeasured:
        raise UsageError(
            unmeasured, "to apply it all the same, pass --yes-unmeasured too, or sweep on this host"
        )
    if not agreed.apply and not agrees("Apply this?"):
        return False
    return (
        not unmeasured
        or agreed.unmeasured
        or agrees("Nothing was measured on such a host. Apply it all the same?")
    )


def _planned(
    system: System, change: RecommendedChange, how: Options
) -> tuple[ApplyPlan, PersistedFile | None]:
    """Return what would change, and the file for every boot; refuse what cannot be done."""
    from sysctl.apply.applying import check
    from sysctl.apply.history import read_history
    from sysctl.apply.persistence import persisted_file
    from sysctl.apply.plan import plan_of

    plan = plan_of(system, change, as_ratio=how.as_ratio, max_at_risk_bytes=how.max_at_risk_bytes)
    check(system, plan, how)
    if not how.persist:
        return plan, None
    return plan, persisted_file(system, plan.fitted.change, read_history(system))


def _show(plan: ApplyPlan, file: PersistedFile | None, how: Options) -> None:
    """Print the difference and what would override it."""
    from profiler.report.applying import print_persisted_file, print_plan
    from profiler.report.console import plain_console

    console = plain_console()
    print_plan(plan, console, remounts=how.mounts)
    if file is not None:
        print_persisted_file(file, console)


def agrees(question: str) -> bool:
    """Ask on the terminal; anything but a clear yes means no."""
    try:
        return input(f"\n{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, ValueError):  # ValueError: the answer is not text
        return False


def _tell(plan: ApplyPlan, done: Sequence[str]) -> None:
    """Print what was done, and how to undo and check it."""
    from profiler.report.applying import changed_names

    print()
    for sentence in done:
        print(sentence)
    names = changed_names(plan)
    if names:
        print(f"applied and read back: {', '.join(names)}")
    else:
        print("every value was in force already")
    print("to undo: writewise rollback    to check: writewise verify --applied")
