"""`writewise`: finds the command, prints errors, chooses the exit code.

Commands are modules with `NAME`, `HELP`, `add_arguments(parser)` and `run(arguments) -> int`.
They import what is heavy inside `run`, so that `writewise --help` stays light.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from contracts.shared.errors import UsageError, WritewiseError
from contracts.shared.text import printable
from profiler.cli import commands

INTERRUPTED_EXIT_CODE = 130
_STDOUT, _STDERR = 1, 2


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each command's module adds its own arguments."""
    parser = _Parser(
        prog="writewise",
        description="Profile S3 pulls, find the write-back settings that make them fast, "
        "and write down the change with its evidence.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in commands.ALL:
        subparser = subparsers.add_parser(
            command.NAME, help=command.HELP, description=command.__doc__
        )
        command.add_arguments(subparser)
        subparser.set_defaults(command=command, commands=commands.ALL)
    return parser


class _Version(argparse.Action):
    """Looks the version up when it is asked for, which takes longer than all the rest of --help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print("writewise", version("writewise"))
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """Errors in one sentence, with what was typed made safe to print."""

    def error(self, message: str) -> NoReturn:
        name = self.prog.partition(" ")[2] or "--help"
        help_call = "writewise --help" if name == "--help" else f"writewise {name} --help"
        raise UsageError(printable(message), f"see `{help_call}`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are printed to stderr, never raised.

    With WRITEWISE_TRACEBACK set an error of our own making is raised as it is.
    """
    _prepare_streams()
    try:
        parser = build_parser()
        words = sys.argv[1:] if argv is None else argv
        if not words:
            parser.print_help(sys.stderr)
            return UsageError.exit_code
        arguments = parser.parse_args(words)
        command: ModuleType = arguments.command
        exit_code = int(command.run(arguments))
        sys.stdout.flush()  # here, where a full disk behind it can still be told
        return exit_code
    except WritewiseError as error:
        _tell_what_came_before(error)
        return _tell(error.message, error.hint, error.exit_code)
    except KeyboardInterrupt:
        return _tell("interrupted", "", INTERRUPTED_EXIT_CODE)
    except OSError as error:
        _drop_output()  # what could not be written would be tried, and fail, again at the exit
        if isinstance(error, BrokenPipeError):  # the reader has gone (`| head`)
            return 1
        return _tell(_words_of(error))
    except Exception as error:
        if os.environ.get("WRITEWISE_TRACEBACK"):
            raise
        hint = "please report it, with what WRITEWISE_TRACEBACK=1 in the environment prints"
        return _tell(f"this is a bug: {type(error).__name__}: {error}", hint)


def _tell_what_came_before(error: WritewiseError) -> None:
    """What failed on the way out (a restore) does not hide why the command ended."""
    first: BaseException = error
    while first.__context__ is not None and not first.__suppress_context__:
        first = first.__context__
    if isinstance(first, WritewiseError) and first.message != error.message:
        _tell(first.message, first.hint, first.exit_code)
    elif isinstance(first, OSError):
        _tell(_words_of(first))


def _words_of(error: OSError) -> str:
    name = error.filename if isinstance(error.filename, (str, bytes)) else ""  # or a descriptor
    return ": ".join(filter(None, (error.strerror or str(error), os.fsdecode(name))))


def _prepare_streams() -> None:
    """Stand in for streams that are closed, and print what the terminal cannot show as `?`."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, number in (("stdout", _STDOUT), ("stderr", _STDERR)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _tell(message: str, hint: str = "", exit_code: int = 1) -> int:
    """Print an error to stderr, if there is one; returns the exit code.

    Whatever an error quotes (a path, what a program said) moves no cursor; its lines stay lines.
    """
    with contextlib.suppress(OSError):
        print(f"writewise: {_lines(message)}", file=sys.stderr)
        if hint:
            print(f"  → {_lines(hint)}", file=sys.stderr)
    return exit_code


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _drop_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
