"""Check that a recommendation, or what was applied, is in force: 0 when it is, 1 when it is not."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sysctl.apply.compliance import Compliance
    from sysctl.host.changes import Change

NAME = "verify"
HELP = "check that a recommendation is in force, with the reason where it is not"

EXIT_COMPLIANT, EXIT_NOT_COMPLIANT = 0, 1


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
    """Check everything and print it."""
    checks = _check(arguments.recommendation)
    is_compliant = all(check.is_compliant for check in checks)
    if arguments.json:
        print(json.dumps(_document(checks), indent=2))
    else:
        from profiler.report.applying import print_compliance
        from profiler.report.console import plain_console

        print_compliance(checks, plain_console())
    return EXIT_COMPLIANT if is_compliant else EXIT_NOT_COMPLIANT


def _check(path: Path | None) -> list[Compliance]:
    from contracts.errors import WritewiseError
    from sysctl.apply.compliance import check_compliance, wanted_by, wanted_by_applied
    from sysctl.apply.source import read_change
    from sysctl.host.system import System

    system = System()
    if path is not None:
        change = read_change(path)
        return check_compliance(system, wanted_by(system, change), _applied())
    from profiler.requirements import NEEDED_BY, require

    require(*NEEDED_BY["status"])
    applied = _applied()
    if not applied:
        raise WritewiseError("nothing is applied on this host", "see `writewise apply --help`")
    return check_compliance(system, wanted_by_applied(applied), applied)


def _applied() -> list[Change]:
    """What the journal has; only root may read it, and without it a reason is told less well."""
    import os

    from sysctl.host.applied_host import AppliedHost
    from sysctl.host.host import state_directory

    if os.geteuid() != 0 or not state_directory().is_dir():
        return []
    return AppliedHost(state_directory()).applied()


def _document(checks: list[Compliance]) -> dict[str, object]:
    return {
        "compliant": all(check.is_compliant for check in checks),
        "settings": [{**vars(check), "compliant": check.is_compliant} for check in checks],
    }
