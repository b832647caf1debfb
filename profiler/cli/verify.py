"""Check that a recommendation, or what was applied, is in force.

The exit code is 0 when all of it is, 1 when something is not, 2 when that could not be checked.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared.errors import WritewiseError

if TYPE_CHECKING:
    from sysctl.apply.compliance import Compliance

NAME = "verify"
HELP = "check that a recommendation is in force, with the reason where it is not"
NEEDS: tuple[str, ...] = ()

EXIT_COMPLIANT, EXIT_NOT_COMPLIANT, EXIT_NOT_CHECKED = 0, 1, 2


class NotCheckedError(WritewiseError):
    """Whether the host complies could not be found out, which is not that it does not."""

    exit_code = EXIT_NOT_CHECKED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What should be in force."""
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "recommendation",
        metavar="RECOMMENDATION",
        nargs="?",
        type=Path,
        help="of advise, or results of sweep",
    )
    wanted.add_argument("--applied", action="store_true", help="what `writewise apply` applied")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(arguments: argparse.Namespace) -> int:
    """Check everything and print it. Raises NotCheckedError."""
    try:
        checks, notes = _check(arguments.recommendation)
    except (WritewiseError, OSError) as error:
        raise _not_checked(error, is_json=arguments.json) from None
    is_compliant = all(check.is_compliant for check in checks)
    if arguments.json:
        print(json.dumps(_document(checks, notes), indent=2))
    else:
        from profiler.report.applying import print_compliance
        from profiler.report.console import plain_console

        print_compliance(checks, plain_console(), notes)
    return EXIT_COMPLIANT if is_compliant else EXIT_NOT_COMPLIANT


def _not_checked(error: WritewiseError | OSError, *, is_json: bool) -> NotCheckedError:
    """The error for stderr; with `--json` the document for stdout is printed, too."""
    message, hint = str(error), ""
    if isinstance(error, WritewiseError):
        message, hint = error.message, error.hint
    if is_json:
        empty: dict[str, object] = {"compliant": None, "settings": [], "notes": []}
        print(json.dumps({**empty, "error": message, "hint": hint}, indent=2))
    return NotCheckedError(message, hint)


def _check(path: Path | None) -> tuple[list[Compliance], list[str]]:
    """Each setting, and what could not be looked at. Raises WritewiseError."""
    from profiler.cli.change_source import read_change
    from sysctl.apply.compliance import check_compliance, wanted_by, wanted_by_applied
    from sysctl.apply.history import read_history
    from sysctl.host.system import System

    system = System()
    if path is not None:
        change, history = read_change(path), read_history(system)
        wanted = wanted_by(system, change, history.changes)
        checks = check_compliance(system, wanted, history.changes)
        untold = f"when it was applied here is not told: {history.problem}"
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
    }
