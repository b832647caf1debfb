# SPDX-License-Identifier: Apache-2.0
"""Check what each command needs on this host, and print what is missing and the exact remedy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from contracts.shared import exit_codes
from profiler.cli import options
from profiler.cli.json_documents import emit

if TYPE_CHECKING:
    from profiler.requirements import CheckResult

NAME = "doctor"
HELP = "check this host: what is missing, and the remedy"
NEEDS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `writewise doctor`."""
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check everything and print it; return 0, or 3 if something is missing or needs root."""
    from profiler import requirements

    host = requirements.CheckedHost()
    findings = {requirement.name: requirement.found_on(host) for requirement in requirements.ALL}
    missing = _missing_by_command(findings, arguments.commands)
    if arguments.json:
        emit(NAME, _as_json(findings, missing))
    else:
        from profiler.report.console import plain_console
        from profiler.report.listings import print_requirements

        print_requirements(findings, missing, plain_console())
    return exit_codes.SUCCESS if _is_ready(findings) else exit_codes.REQUIREMENT


def _is_ready(findings: dict[str, CheckResult]) -> bool:
    return all(finding.ok for finding in findings.values())


def _missing_by_command(
    findings: dict[str, CheckResult], commands: Sequence[ModuleType]
) -> dict[str, list[str]]:
    """Return the missing requirements of each command, in the order of `writewise --help`.

    An option with requirements of its own has its own entry: `verify --applied`.
    Requirements that only root can check are left out: a command that has one also lacks root.
    """
    needs: dict[str, Sequence[str]] = {}
    for command in commands:
        needs[command.NAME] = command.NEEDS
        for option, more in getattr(command, "NEEDS_OF_OPTIONS", {}).items():
            needs[f"{command.NAME} {option}"] = (*command.NEEDS, *more)
    return {
        call: [name for name in names if not findings[name].ok and not findings[name].needs_root]
        for call, names in needs.items()
    }


def _as_json(findings: dict[str, CheckResult], missing: dict[str, list[str]]) -> dict[str, object]:
    from dataclasses import asdict

    from profiler.requirements import ALL

    purpose = {requirement.name: requirement.purpose for requirement in ALL}
    return {
        "ready": _is_ready(findings),
        "requirements": [
            {"name": name, "purpose": purpose[name], "ok": finding.ok, **asdict(finding)}
            for name, finding in findings.items()
        ],
        "commands": [
            {"name": name, "ready": not lacking, "missing": lacking}
            for name, lacking in missing.items()
        ],
    }
