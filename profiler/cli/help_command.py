# SPDX-License-Identifier: Apache-2.0
"""Print the help of a command, or the list of commands."""

from __future__ import annotations

import argparse

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted

NAME = "help"
HELP = "print the help of a command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command, and its action if it has actions."""
    parser.add_argument(
        "topic",
        metavar="COMMAND",
        nargs="*",
        help="a command, and its action if it has some: transfer tune",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what `writewise COMMAND --help` prints. Raises UsageError for an unknown word."""
    parser = arguments.parser
    for number, word in enumerate(arguments.topic):
        if number and not parser.subparsers:
            raise UsageError(
                f"unexpected argument {quoted(word)}: {arguments.topic[number - 1]} has no actions",
                f"run `writewise help {' '.join(arguments.topic[:number])}`",
            )
        parser = parser.subparsers.get(word) or parser.parse_args([word])
    arguments.parser.parse_args([*arguments.topic, "--help"])
    return 0
