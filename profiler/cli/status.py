"""What Writewise has changed on this host, since when, what a killed run left, who is at work."""

from __future__ import annotations

import argparse
import json
import sys

NAME = "status"
HELP = "what is applied on this host, since when, and who is at work"

_FILE_COLUMNS = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--json` alone."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(arguments: argparse.Namespace) -> int:
    """Look and print; nothing is changed."""
    from dataclasses import asdict

    from profiler.requirements import NEEDED_BY, require

    require(*NEEDED_BY[NAME])
    from sysctl.apply.state import read_state

    state = read_state()
    if arguments.json:
        print(json.dumps(asdict(state), indent=2))
    else:
        from rich.console import Console

        from profiler.report.applying import print_state

        width = None if sys.stdout.isatty() else _FILE_COLUMNS
        print_state(state, Console(markup=False, highlight=False, width=width))
    return 0
