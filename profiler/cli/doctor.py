"""Check what each command needs of this host; says what is missing and the exact remedy."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from profiler.requirements import CheckResult

NAME = "doctor"
HELP = "check this host: what is there, what is missing, and the remedy"
NEEDS: tuple[str, ...] = ()

EXIT_READY, EXIT_MISSING = 0, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `writewise doctor`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(arguments: argparse.Namespace) -> int:
    """Check everything, print it, and return 0, or 3 when something is missing or needs root."""
    from profiler import requirements

    host = requirements.CheckedHost()
    findings = {requirement.name: requirement.found_on(host) for requirement in requirements.ALL}
    missing = _missing_by_command(findings, arguments.commands)
    if arguments.json:
        print(json.dumps(_as_json(findings, missing), indent=2))
    else:
        from profiler.report.console import plain_console

        _print(findings, missing, plain_console())
    return EXIT_READY if all(finding.ok for finding in findings.values()) else EXIT_MISSING


def _missing_by_command(
    findings: dict[str, CheckResult], commands: Sequence[ModuleType]
) -> dict[str, list[str]]:
    """For each command, in the order of `writewise --help`: the requirements that it lacks.

    What only root can check is not among them: a command that needs it lacks root too.
    """
    return {
        command.NAME: [
            name
            for name in command.NEEDS
            if not findings[name].ok and not findings[name].needs_root
        ]
        for command in commands
    }


def _as_json(findings: dict[str, CheckResult], missing: dict[str, list[str]]) -> dict[str, object]:
    from profiler.requirements import ALL

    purpose = {requirement.name: requirement.purpose for requirement in ALL}
    return {
        "requirements": [
            {"name": name, "purpose": purpose[name], "ok": finding.ok, **asdict(finding)}
            for name, finding in findings.items()
        ],
        "commands": [
            {"name": name, "ready": not lacking, "missing": lacking}
            for name, lacking in missing.items()
        ],
    }


def _print(
    findings: dict[str, CheckResult], missing: dict[str, list[str]], console: Console
) -> None:
    console.print(_requirements_table(findings))
    for problem, remedy in _problems(findings):
        # unwrapped, below the table: a remedy is there to be copied
        console.print(f"\n{problem}\n  → {remedy}", soft_wrap=True)
    console.print()
    console.print(_commands_table(missing))


def _problems(findings: dict[str, CheckResult]) -> list[tuple[str, str]]:
    """Sentence and remedy of what is missing; what only root can check is named in one sentence."""
    here = [finding for finding in findings.values() if not finding.needs_root]
    found = [(each.problem, each.remedy or "") for each in here if each.problem]
    hidden = [name for name, finding in findings.items() if finding.needs_root]
    if hidden:
        remedy = next(each.remedy or "" for each in findings.values() if each.needs_root)
        found.append((f"only root can check: {', '.join(hidden)}", remedy))
    return found


def _requirements_table(findings: dict[str, CheckResult]) -> Table:
    from rich.table import Table

    table = Table("requirement", "status", box=None, pad_edge=False)
    table.add_column("found", overflow="fold")
    for name, finding in findings.items():
        status = "ok" if finding.ok else "needs root" if finding.needs_root else "missing"
        style = None if finding.ok else "bold red"
        table.add_row(name, status, finding.found, style=style)
    return table


def _commands_table(missing: dict[str, list[str]]) -> Table:
    from rich.table import Table

    table = Table("command", "", box=None, pad_edge=False)
    for name, lacking in missing.items():
        table.add_row(name, f"missing: {', '.join(lacking)}" if lacking else "ready")
    return table
