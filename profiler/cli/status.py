# SPDX-License-Identifier: Apache-2.0
"""Print what Writewise has changed on this host and since when, what a killed run left, and which
process holds the lock.
"""

from __future__ import annotations

import argparse

from profiler.cli import options
from profiler.cli.json_documents import emit

NAME = "status"
HELP = "print what is applied on this host, and since when"
NEEDS = ("root",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
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

        print_state(state, plain_console())
    return 0
