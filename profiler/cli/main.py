"""`writewise`: finds the command, prints errors, chooses the exit code.

Commands are modules with `NAME`, `HELP`, `add_arguments(parser)` and `run(arguments) -> int`.
They import what is heavy inside `run`, so that `writewise --help` stays light.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType

from contracts.errors import WritewiseError
from profiler.cli import commands

INTERRUPTED_EXIT_CODE = 130


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each command's module adds its own arguments."""
    parser = argparse.ArgumentParser(
        prog="writewise",
        description="Profile S3 pulls, find the write-back settings that make them fast, "
        "and write down the change with its evidence.",
    )
    parser.add_argument("--version", action="version", version=f"writewise {_version()}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in commands.ALL:
        subparser = subparsers.add_parser(
            command.NAME, help=command.HELP, description=command.__doc__
        )
        command.add_arguments(subparser)
        subparser.set_defaults(command=command)
    return parser


def _version() -> str:
    from importlib.metadata import version

    return version("writewise")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are printed to stderr, never raised."""
    arguments = build_parser().parse_args(argv)
    command: ModuleType = arguments.command
    try:
        return int(command.run(arguments))
    except WritewiseError as error:
        print(f"writewise: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  → {error.hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("writewise: interrupted", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone (`| head`): nothing to tell it
        return 1


if __name__ == "__main__":
    sys.exit(main())
