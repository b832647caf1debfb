# SPDX-License-Identifier: Apache-2.0
"""Check that a recommendation, or what was applied, is in force.

The exit code is 0 if every setting is in force, 1 if one is not, 4 if it cannot be determined.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared import exit_codes
from contracts.shared.errors import RequirementError, UsageError, WritewiseError
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.json_documents import emit

if TYPE_CHECKING:
    from sysctl.apply.compliance import Compliance

NAME = "verify"
HELP = "check that a recommendation is in force"
NEEDS: tuple[str, ...] = ()
#: What an option needs in addition; `doctor` lists it on its own line.
NEEDS_OF_OPTIONS = {"--applied": ("root",)}


class NotCheckedError(WritewiseError):
    """It cannot be determined whether the settings are in force."""

    exit_code = exit_codes.UNDETERMINED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what should be in force."""
    parser.add_argument(
        "recommendation",
        metavar="RECOMMENDATION",
        nargs="?",
        type=types.file,
        help="recommendation.json of `writewise advise`, or results of `writewise sweep`",
    )
    parser.add_argument(
        "--applied", action="store_true", help="check what `writewise apply` applied instead"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check everything and print it. Raises NotCheckedError."""
    if arguments.applied and arguments.recommendation is not None:
        raise UsageError(
            "RECOMMENDATION and --applied cannot be used together", "pass one of them, not both"
        )
    if not arguments.applied and arguments.recommendation is None:
        raise UsageError(
            "verify needs either RECOMMENDATION or --applied", "see `writewise verify --help`"
        )
    try:
        checks, notes = _check(arguments.recommendation)
    except (WritewiseError, OSError) as error:
        raise _not_checked(error, is_json=arguments.json) from None
    is_compliant = all(check.is_compliant for check in checks)
    if arguments.json:
        emit(NAME, _document(checks, notes))
    else:
        from profiler.report.applying import print_compliance
        from profiler.report.console import plain_console

        print_compliance(checks, plain_console(), notes)
    return exit_codes.SUCCESS if is_compliant else exit_codes.FAILURE


def _not_checked(error: WritewiseError | OSError, *, is_json: bool) -> WritewiseError:
    """Return the error for stderr; with `--json` also print the document on stdout.

    Wrong arguments and missing requirements keep their own exit codes.
    """
    message, hint = str(error), ""
    if isinstance(error, WritewiseError):
        message, hint = error.message, error.hint
    if is_json:
        empty: dict[str, object] = {"compliant": None, "settings": [], "notes": []}
        emit(NAME, {**empty, "error": message, "hint": hint or None})
    if isinstance(error, (UsageError, RequirementError)):
        return error
    return NotCheckedError(message, hint)


def _check(path: Path | None) -> tuple[list[Compliance], list[str]]:
    """Check each setting; return these and what could not be read. Raises WritewiseError."""
    from profiler.cli.change_source import read_change
    from sysctl.apply.compliance import check_compliance, wanted_by, wanted_by_applied
    from sysctl.apply.history import read_history
    from sysctl.host.system import System

    system = System()
    if path is not None:
        change, history = read_change(path), read_history(system)
        wanted = wanted_by(system, change, history.changes)
        checks = check_compliance(system, wanted, history.changes)
        untold = f"cannot determine when it was applied: {history.problem}"
        notes = [*wanted.notes, *history.temporary]
        return checks, [*notes, *([untold] if history.problem else [])]
    from profiler.requirements import require

    require("root")
    history = read_history(system)
    if history.problem:
        raise WritewiseError(history.problem, history.hint)
    if not history.changes:
        raise WritewiseError("nothing is applied on this host", "see `writewise apply --help`")
    wanted = wanted_by_applied(system, history.changes)
    checks = check_compliance(system, wanted, history.changes)
    return checks, [*wanted.notes, *history.temporary]


def _document(checks: list[Compliance], notes: list[str]) -> dict[str, object]:
    return {
        "compliant": all(check.is_compliant for check in checks),
        "settings": [{**vars(check), "compliant": check.is_compliant} for check in checks],
        "notes": notes,
        "error": None,
        "hint": None,
    }
