"""What Writewise has changed on this host, since when, what a killed run left, who is at work."""

from __future__ import annotations

import argparse
import json

NAME = "status"
HELP = "what is applied on this host, since when, and who is at work"
NEEDS = ("root",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--json` alone."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(arguments: argparse.Namespace) -> int:
    """Look and print; nothing is changed."""
    from dataclasses import asdict

    from profiler.requirements import require

    require(*NEEDS)
    from sysctl.apply.state import read_state

    state = read_state()
    if arguments.json:
        print(json.dumps(asdict(state), indent=2))
    else:
        from profiler.report.applying import print_state
        from profiler.report.console import plain_console

        print_state(state, plain_console())
    return 0
