# SPDX-License-Identifier: Apache-2.0
"""Print what Writewise has changed on this host and since when, what a killed run left, which
process holds the lock, and what `writewise govern` has done.
"""

from __future__ import annotations

import argparse

from profiler.cli import options
from profiler.cli.json_documents import emit

NAME = "status"
HELP = "print what is applied on this host, and since when"
NEEDS = ("root",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the days of the governor, and `--json`."""
    parser.add_argument(
        "--days",
        action="store_true",
        help="print a line for each of the last 31 days with `writewise govern`",
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look and print, without any change."""
    from dataclasses import asdict

    from profiler.requirements import require

    require(*NEEDS)
    from sysctl.apply.state import read_state

    state = read_state()
    if arguments.json:
        emit(NAME, asdict(state))
    else:
        from profiler.report.applying import print_state
        from profiler.report.console import plain_console
        from profiler.report.governor_state import print_days, print_governor

        console = plain_console()
        print_state(state, console)
        if state.governor:
            print_governor(state.governor, console, is_running=state.is_governor_running)
            print_days(state.governor, console, all_days=arguments.days)
    return 0
