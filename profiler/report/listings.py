# SPDX-License-Identifier: Apache-2.0
"""What doctor and clients list: tables, and below them missing things with remedies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from profiler.pull.clients.survey import Surveyed
from profiler.report.console import plain_table, print_lines
from profiler.requirements import CheckResult

_REMEDY_INDENT = 4


def print_requirements(
    findings: Mapping[str, CheckResult],
    missing: Mapping[str, Sequence[str]],
    console: Console,
) -> None:
    """Print what the host has, what is missing and its remedy, and which commands are ready."""
    table = plain_table("requirement", "status", "found")
    for name, finding in findings.items():
        status = "ok" if finding.ok else "needs root" if finding.needs_root else "missing"
        style = "" if finding.ok else "bold red"
        table.add_row(*map(Text, (name, status, finding.found)), style=style)
    console.print(table)
    for problem, remedy in _problems(findings):
        console.print()
        print_lines([problem], console)
        print_lines([f"  → {remedy}"], console, hanging=_REMEDY_INDENT)
    console.print()
    commands = plain_table("command", "")
    for name, lacking in missing.items():
        commands.add_row(name, f"missing: {', '.join(lacking)}" if lacking else "ready")
    console.print(commands)


def _problems(findings: Mapping[str, CheckResult]) -> list[tuple[str, str]]:
    """Return missing things with remedies, and one sentence on what only root can check."""
    here = [finding for finding in findings.values() if not finding.needs_root]
    found = [(each.problem, each.remedy or "") for each in here if each.problem]
    hidden = [name for name, finding in findings.items() if finding.needs_root]
    if hidden:
        remedy = next(each.remedy or "" for each in findings.values() if each.needs_root)
        found.append((f"only root can check: {', '.join(hidden)}", remedy))
    return found


def print_clients(found: Iterable[Surveyed], console: Console) -> None:
    """Print each client with its version, and below how to install the missing ones."""
    table = plain_table("client", "transfers by", "version", "what it is")
    every = list(found)
    for each in every:
        version = each.version or "not here"
        table.add_row(*map(Text, (each.name, each.transfer_client, version, each.what)))
    console.print(table)
    missing = [f"{each.name}: {each.install}" for each in every if each.version is None]
    if missing:
        console.print()
    print_lines(missing, console, hanging=2)
