# SPDX-License-Identifier: Apache-2.0
"""List the pull clients: which can be used here, their versions, and how to install the others."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from profiler.cli import options
from profiler.cli.json_documents import emit

if TYPE_CHECKING:
    pass

NAME = "clients"
HELP = "list the pull clients that can be used here"
NEEDS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `writewise clients`."""
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look for every client and print the result; return 0 in any case."""
    from dataclasses import asdict

    from profiler.pull.clients.survey import survey

    found = survey()
    if arguments.json:
        emit(NAME, {"clients": [asdict(each) for each in found]})
    else:
        from profiler.report.console import plain_console
        from profiler.report.listings import print_clients

        print_clients(found, plain_console())
    return 0
