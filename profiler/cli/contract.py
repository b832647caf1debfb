# SPDX-License-Identifier: Apache-2.0
"""Check contract files, convert one to the other syntax, or print the YAML syntax's JSON Schema."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from contracts.shared.errors import UsageError, WritewiseError
from profiler.cli import options
from profiler.cli.json_documents import emit

if TYPE_CHECKING:
    from contracts.model import Contract

NAME = "contract"
HELP = "check or convert contract files, or print their schema"
NEEDS: tuple[str, ...] = ()

_SYNTAXES = ("mistral", "yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions and their arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="print OK or every error of each file",
        description="Print OK or every error of each contract.",
    )
    check.add_argument("files", metavar="FILE", nargs="+", help="a contract in either syntax")
    options.add_json(check)
    check.set_defaults(action=_check)
    convert = actions.add_parser(
        "convert",
        help="write a contract in the other syntax",
        description="Write a contract in the other syntax. Comments are lost.",
    )
    convert.add_argument("file", metavar="FILE", help="a contract in either syntax")
    convert.add_argument(
        "--to",
        choices=_SYNTAXES,
        metavar="SYNTAX",
        help="mistral or yaml (default: the one that FILE is not in)",
    )
    options.add_output(convert, "contract")
    convert.set_defaults(action=_convert)
    schema = actions.add_parser(
        "schema",
        help="print the JSON Schema of contracts in YAML, for editors",
        description="Print the JSON Schema of contracts in YAML, for editors.",
    )
    schema.set_defaults(action=_schema)


def run(arguments: argparse.Namespace) -> int:
    """Run the action; return 0 on success. Raises WritewiseError."""
    return int(arguments.action(arguments))


def _check(arguments: argparse.Namespace) -> int:
    """Go on after a bad file; raise the errors of all bad files together at the end."""
    errors: list[UsageError] = []
    files: list[dict[str, object]] = []
    for path in arguments.files:
        try:
            rules = _count_rules(path)
        except UsageError as error:
            errors.append(error)
            problems = getattr(error, "problems", None) or [error.message]
            files.append({"path": path, "rules": None, "problems": list(problems)})
            continue
        files.append({"path": path, "rules": rules, "problems": []})
        if not arguments.json:
            print(_verdict(path, rules), flush=True)
    if arguments.json:
        emit("contract check", {"valid": not errors, "files": files})
    if errors:
        hints = tuple(dict.fromkeys(error.hint for error in errors if error.hint))
        raise UsageError("\n".join(error.message for error in errors), "; ".join(hints))
    return 0


def _count_rules(path: str) -> int:
    from contracts.loading import SYNTAXES, read_text, syntax_of

    text = read_text(path)
    return len(SYNTAXES[syntax_of(path, text)].parse(text, path).rules)


def _verdict(path: str, count: int) -> str:
    from contracts.shared.text import printable

    return f"{printable(path)}: OK, {count} {'rule' if count == 1 else 'rules'}"


def _convert(arguments: argparse.Namespace) -> int:
    from contracts.loading import SYNTAXES, read_text, syntax_of

    text = read_text(arguments.file)
    present = syntax_of(arguments.file, text)
    target = arguments.to or next(name for name in _SYNTAXES if name != present)
    contract = SYNTAXES[present].parse(text, arguments.file)
    converted = _rendered(contract, target)
    if arguments.output is None:
        sys.stdout.buffer.write(converted.encode())  # contracts are UTF-8, whatever the locale
    else:
        _write_new_file(str(arguments.output), converted)
    return 0


def _schema(_: argparse.Namespace) -> int:
    from contracts.schema import schema_text

    print(schema_text(), end="")
    return 0


def _rendered(contract: Contract, target: str) -> str:
    """Return the contract in the target syntax, read back to check that nothing was lost."""
    from contracts.loading import SYNTAXES
    from contracts.shared.text import printable

    syntax, name = SYNTAXES[target], printable(contract.source)
    try:
        text = syntax.render(contract)
    except ValueError as error:
        message = f"{name} cannot be written as {target}: {error}"
        raise UsageError(message, "keep the contract as YAML, which has every word") from None
    if syntax.parse(text, contract.source) != contract:
        raise WritewiseError(f"{name} cannot be written as {target} without a loss")
    return text


def _write_new_file(path: str, text: str) -> None:
    """Write a file that must not exist, even as a symlink (O_EXCL). Raises UsageError."""
    from contracts.shared.text import printable
    from contracts.shared.writing import directory_of

    try:
        with directory_of(path) as (directory, name):
            _write_new(directory, name, text)
    except FileExistsError:
        message = f"{printable(path)} exists already"
        raise UsageError(message, "name a new file, or remove it") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write {printable(path)}: {reason}") from None


def _write_new(directory: int, name: str, text: str) -> None:
    from contracts.shared.writing import create

    descriptor = create(directory, name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        os.unlink(name, dir_fd=directory)
        raise
