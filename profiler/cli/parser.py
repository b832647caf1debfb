# SPDX-License-Identifier: Apache-2.0
"""The parser that every command shares: its help, its errors, and the common options.

It is argparse's, so tools for an `argparse.ArgumentParser` (argparse-manpage, shtab) can read it.
First the words typed are put into one unambiguous order (`profiler.cli.words`).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from contracts.shared.errors import UsageError
from contracts.shared.text import printable, quoted, suggestion
from profiler.cli.words import arranged

#: Names of attributes of an action that argparse does not know.
_RARE = "is_rare"
_MAX_HELP_POSITION = 27
_GENERAL = "general options"
_GENERAL_IN_SHORT = "--help-all (every option), -q/--quiet, -v/--verbose"


def rare(action: argparse.Action) -> argparse.Action:
    """Mark an option as one that `--help` leaves out and `--help-all` shows."""
    vars(action)[_RARE] = True
    return action


def is_rare(action: argparse.Action) -> bool:
    """Return whether only `--help-all` shows the option."""
    return bool(vars(action).get(_RARE))


class Parser(argparse.ArgumentParser):
    """The parser of one command or action, or of all.

    Raises UsageError for words that it cannot parse. Options are never abbreviated and take one
    value or none, so no option consumes a positional argument.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(
            **{
                **keywords,
                "add_help": False,
                "allow_abbrev": False,
                "formatter_class": _Formatter,
            }
        )
        self._general = self.add_argument_group(_GENERAL)
        self._general.add_argument(
            "-h", "--help", action=_Help, nargs=0, help="print the common options and exit"
        )
        self._general.add_argument(
            "--help-all", action=_HelpAll, nargs=0, help="print every option and exit"
        )
        self._general.add_argument(
            *("-q", "--quiet"),
            action="store_true",
            default=argparse.SUPPRESS,  # allowed before and after the command
            help="print results and errors only",
        )
        self._general.add_argument(
            *("-v", "--verbose"),
            action="store_true",
            default=argparse.SUPPRESS,
            help="also print versions, and what caused an error",
        )

    def add_general_argument(self, *names: str, **keywords: Any) -> None:
        """Add an option to the group that every help ends with."""
        self._general.add_argument(*names, **keywords)

    @property
    def arguments(self) -> list[argparse.Action]:
        """Return every argument and option."""
        return list(self._actions)

    @property
    def subparsers(self) -> dict[str, Parser]:
        """Return the parsers of its commands or actions, by name."""
        kind = argparse._SubParsersAction
        found = (each.choices for each in self._actions if isinstance(each, kind))
        return dict(next(iter(found), {}))

    @property
    def general_actions(self) -> list[argparse.Action]:
        """Return the options that every command has."""
        return list(self._general._group_actions)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words after `arranged` has ordered them."""
        return super().parse_known_args(arranged(self, args or []), namespace)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; the words typed are made safe to print."""
        said = printable(re.sub(r"^argument (-\w/)?", "", message))
        raise UsageError(said, f"see `{self.prog} --help`")

    def format_usage(self) -> str:
        """Return one line, since the list below it has the options."""
        positionals = [action for action in self._actions if not action.option_strings]
        return " ".join(["usage:", self.prog, "[OPTION…]", *map(usage_of, positionals)]) + "\n"

    def format_help(self) -> str:
        """Return the help with the common options."""
        return self._help(with_rare=False)

    def format_help_all(self) -> str:
        """Return the help with every option."""
        return self._help(with_rare=True)

    def _help(self, *, with_rare: bool) -> str:
        formatter = self._get_formatter()
        paragraphs = (self.description or "").split("\n\n")
        for paragraph in paragraphs if with_rare else paragraphs[:1]:
            formatter.add_text(paragraph)
        for group in self._action_groups:
            if group is not self._general:
                _add_group(formatter, group, with_rare=with_rare)
        if with_rare or not self._is_of_one_command():
            _add_group(formatter, self._general, with_rare=True)
        else:
            formatter.add_text(f"Also: {_GENERAL_IN_SHORT}.")
        return f"{self.format_usage()}\n{formatter.format_help()}"

    def _is_of_one_command(self) -> bool:
        return not any(action.nargs == argparse.PARSER for action in self._actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, wrong_choice(str(value), action.choices))


def _add_group(
    formatter: argparse.HelpFormatter, group: argparse._ArgumentGroup, *, with_rare: bool
) -> None:
    shown = [each for each in group._group_actions if with_rare or not is_rare(each)]
    formatter.start_section(group.title)
    formatter.add_text(group.description if shown else None)
    formatter.add_arguments(shown)
    formatter.end_section()


def usage_of(action: argparse.Action) -> str:
    """Return how a positional argument is shown in a usage line: `FILE…`, `[DEST]`."""
    name = str(action.metavar or action.dest)
    if action.nargs in (argparse.ONE_OR_MORE, argparse.PARSER):
        return f"{name} …"
    if action.nargs == argparse.ZERO_OR_MORE:
        return f"[{name} …]"
    return f"[{name}]" if action.nargs in (argparse.OPTIONAL, argparse.REMAINDER) else name


def wrong_choice(value: str, choices: Iterable[object]) -> str:
    """Return the message for a value that is not one of the choices."""
    known = list(map(str, choices))
    hint = suggestion(value, known)
    return f"invalid value {quoted(value)}; {hint or 'use ' + ', '.join(known)}"


class _Help(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.print_help()
        parser.exit()


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        if isinstance(parser, Parser):
            print(parser.format_help_all(), end="")
        parser.exit()


class _Formatter(argparse.HelpFormatter):
    """`--output FILE` in one column, its help in another; each name of an option once."""

    def __init__(self, prog: str, **keywords: Any) -> None:
        super().__init__(prog, max_help_position=_MAX_HELP_POSITION, **keywords)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(action.option_strings)
        return names if action.nargs == 0 else f"{names} {action.metavar or action.dest.upper()}"
