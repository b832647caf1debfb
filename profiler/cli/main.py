# SPDX-License-Identifier: Apache-2.0
"""`writewise`: find the command, print errors, choose the exit code.

Commands are modules with `NAME`, `HELP`, `add_arguments(parser)` and `run(arguments) -> int`.
They do heavy imports inside `run`, so that `writewise --help` stays light.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from contracts.shared import exit_codes
from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from profiler.cli import commands, help_command
from profiler.cli.parser import Parser
from profiler.cli.remembering import run_remembered

_STDOUT, _STDERR = 1, 2


def build_parser(words: Sequence[str] | None = None) -> Parser:
    """Return the parser of all commands; each command's module adds its own arguments.

    With `words`, the words typed, only the command that they name gets its arguments: those of all
    commands would take longer than the rest of --help. It has no side effects, so documentation,
    man pages and completions can be made from it.
    """
    is_complete = words is None or help_command.NAME in words
    parser = Parser(
        prog="writewise",
        description="Profile S3 pulls, and find the write-back settings that make them fast.",
    )
    parser.add_general_argument(
        "--version", action=_Version, nargs=0, help="print the versions in use and exit"
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (*commands.ALL, help_command):
        subparser = subparsers.add_parser(
            command.NAME, help=command.HELP, description=command.__doc__
        )
        if is_complete or (words and command.NAME in words):
            command.add_arguments(subparser)
        subparser.set_defaults(command=command, commands=commands.ALL, parser=parser)
    return parser


class _Version(argparse.Action):
    """Looks the versions up only on request, since that takes longer than --help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from profiler.cli.version import version_text

        print(version_text())
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are printed to stderr, never raised.

    With WRITEWISE_TRACEBACK set, a bug's exception is raised unchanged.
    """
    _prepare_streams()
    words = sys.argv[1:] if argv is None else argv
    arguments = argparse.Namespace()
    try:
        if not words:
            build_parser(words).print_help(sys.stderr)
            return exit_codes.USAGE
        build_parser(words).parse_args(words, arguments)
        if _is_verbose(arguments):
            _print_versions()
        exit_code = run_remembered(arguments, words)
        sys.stdout.flush()  # here a full disk can still be reported
        return exit_code
    except Exception as error:
        exit_code = _report(error)
        if _is_verbose(arguments):
            _print_causes(error)
        return _own_failure(exit_code, words, arguments)
    except KeyboardInterrupt:
        return _print_error("interrupted", "", exit_codes.INTERRUPTED)


def _report(error: Exception) -> int:
    """Print the error, or raise a bug if that is wanted; return the exit code."""
    if isinstance(error, WritewiseError):
        _print_what_came_before(error)
        return _print_error(error.message, error.hint, error.exit_code)
    if isinstance(error, OSError):
        _drop_output()  # else Python would write it again at exit, and fail again
        if isinstance(error, BrokenPipeError):  # the reader is gone (`| head`)
            return exit_codes.FAILURE
        return _print_error(_words_of(error))
    if os.environ.get("WRITEWISE_TRACEBACK"):
        raise error
    hint = "please report it, with what WRITEWISE_TRACEBACK=1 in the environment prints"
    return _print_error(f"this is a bug: {type(error).__name__}: {error}", hint)


def _own_failure(exit_code: int, words: Sequence[str], arguments: argparse.Namespace) -> int:
    """Return the exit code; for a command that runs a program, one distinct from the program's."""
    names = [word for word in words if not word.startswith("-")]
    is_given = "--" in words or getattr(arguments, "argv", None)
    runs_program = names[:1] in (["profile"], ["run"]) and is_given
    if not runs_program or exit_code in (exit_codes.NOT_EXECUTABLE, exit_codes.NOT_FOUND):
        return exit_code
    return exit_codes.OWN_FAILURE


def _is_verbose(arguments: argparse.Namespace) -> bool:
    return bool(getattr(arguments, "verbose", False))


def _print_versions() -> None:
    from profiler.cli.version import version_text

    print(version_text(), file=sys.stderr)


def _print_causes(error: BaseException) -> None:
    """Print every error that led to this one, with the first cause last."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        _print_error(f"caused by {type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__


def _print_what_came_before(error: WritewiseError) -> None:
    """Print the first error, so that a later one (of a restore) does not hide it."""
    first: BaseException = error
    while first.__context__ is not None and not first.__suppress_context__:
        first = first.__context__
    if isinstance(first, WritewiseError) and first.message != error.message:
        _print_error(first.message, first.hint, first.exit_code)
    elif isinstance(first, OSError):
        _print_error(_words_of(first))


def _words_of(error: OSError) -> str:
    name = error.filename if isinstance(error.filename, (str, bytes)) else ""  # or a descriptor
    return ": ".join(filter(None, (error.strerror or str(error), os.fsdecode(name))))


def _prepare_streams() -> None:
    """Replace closed streams, and print characters that the terminal cannot show as `?`."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, number in (("stdout", _STDOUT), ("stderr", _STDERR)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _print_error(message: str, hint: str = "", exit_code: int = 1) -> int:
    """Print an error to stderr, if that is open; return the exit code.

    Quoted text (a path, a program's output) cannot move the cursor; its line breaks stay.
    On a terminal, lines are broken between words.
    """
    lines = f"writewise: {message}".split("\n")
    lines += f"  → {hint}".split("\n") if hint else []
    with contextlib.suppress(OSError):
        if sys.stderr.isatty():
            from profiler.report.console import error_console, print_lines

            print_lines(lines, error_console(), hanging=4)
        else:
            print("\n".join(map(printable, lines)), file=sys.stderr)
    return exit_code


def _drop_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def program() -> int:
    """Do what `main` does, as a process of its own.

    After the command's end Ctrl-C ends Python as the system does: while Python ends, its modules
    would print a traceback.
    """
    try:
        exit_code = main()
        _let_interrupts_end_python()
    except KeyboardInterrupt:  # as late as that
        _let_interrupts_end_python()
        return exit_codes.INTERRUPTED
    return exit_code


def _let_interrupts_end_python() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # nohup, or a signal came before
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(program())
