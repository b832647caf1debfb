"""List the pull clients: which can be used here, in which version, and how to get the others."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profiler.pull.clients.survey import Surveyed

NAME = "clients"
HELP = "list the pull clients: which can be used here, and how to get the others"
NEEDS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `writewise clients`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(arguments: argparse.Namespace) -> int:
    """Look for every client and print what was found; 0 whatever it was."""
    from dataclasses import asdict

    from profiler.pull.clients.survey import survey

    found = survey()
    if arguments.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    else:
        _print(found)
    return 0


def _print(found: tuple[Surveyed, ...]) -> None:
    from rich.table import Table

    from profiler.report.console import plain_console

    console = plain_console()
    table = Table("client", "transfer client", box=None, pad_edge=False)
    table.add_column("version", overflow="fold")
    table.add_column("what it is", overflow="fold")
    for each in found:
        version = each.version or "not here"
        table.add_row(each.name, each.transfer_client, version, each.what)
    console.print(table)
    missing = [each for each in found if each.version is None]
    if missing:
        console.print()
    for each in missing:  # unwrapped, below the table: it is there to be copied
        console.print(f"{each.name}: {each.install}", soft_wrap=True)
