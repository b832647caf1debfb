# SPDX-License-Identifier: Apache-2.0
"""Walk the parser of all commands, and write the page of docs/reference."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from profiler.cli.main import build_parser
from profiler.cli.parser import Parser
from tools.docs.markdown import anchor, cell, code, table


@dataclass(frozen=True)
class Command:
    """One command or subcommand: its words after `writewise`, parser, and line of help."""

    words: tuple[str, ...]
    parser: Parser
    help: str
    module: ModuleType | None  # None: the program itself

    @property
    def name(self) -> str:
        """The name as typed."""
        return " ".join(("writewise", *self.words))

    @property
    def subcommands(self) -> tuple[Command, ...]:
        """The subcommands that can follow its name, in the order of its help."""
        return tuple(_below(self))

    @property
    def actions(self) -> list[argparse.Action]:
        """Its arguments and options, without subcommands and common options."""
        return [
            each
            for each in self.parser._actions
            if not isinstance(each, argparse._SubParsersAction)
            and each not in self.parser.general_actions
        ]


def all_commands() -> list[Command]:
    """Return the program, each command and each subcommand, in the order of `writewise --help`."""
    top = Command((), build_parser(), "", None)
    return [top, *_with_those_below(top.subcommands)]


def reaching_s3() -> list[str]:
    """Return the commands that reach S3, which all take --endpoint-url."""
    return [
        command.name
        for command in all_commands()
        if any("--endpoint-url" in action.option_strings for action in command.actions)
    ]


def _with_those_below(commands: tuple[Command, ...]) -> Iterator[Command]:
    for command in commands:
        yield command
        yield from _with_those_below(command.subcommands)


def _below(command: Command) -> Iterator[Command]:
    for action in command.parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, parser in action.choices.items():
            if name in helps:  # an old name has no help
                module = command.module or parser.get_default("command")
                yield Command((*command.words, name), parser, helps[name], module)


def page() -> str:
    """Return docs/reference/commands.md."""
    commands = all_commands()
    listed = [
        [f"[`{each.name}`](#{anchor(each.name)})", cell(each.help)]
        for each in commands
        if len(each.words) == 1
    ]
    return "\n".join(
        [
            "# Commands",
            "",
            "`writewise COMMAND --help` and `man writewise-COMMAND` have the same. See also",
            "[exit codes](exit-codes.md), [environment variables](environment.md),",
            "[files](files.md), [JSON documents](json.md) and [IAM actions](iam.md).",
            "",
            *table(["Command", "Does"], listed),
            "",
            "Every command also has:",
            "",
            *table(["Option", "Meaning"], _general_rows(commands[0])),
            *(line for command in commands[1:] for line in _section(command)),
            "",
        ]
    )


def _general_rows(top: Command) -> list[list[str]]:
    actions = top.parser.general_actions
    return [[code(_written(action)), cell(_help(top, action))] for action in actions]


def _section(command: Command) -> list[str]:
    level = "#" * (1 + len(command.words))
    description = (command.parser.description or _sentence(command.help)).strip()
    lines = ["", f"{level} {command.name}", "", description]
    lines += ["", f"Usage: `{synopsis(command)}`"]
    rows = [[code(_written(action)), cell(_help(command, action))] for action in command.actions]
    if rows:
        lines += ["", *table(["Argument or option", "Meaning"], rows)]
    needs = getattr(command.module, "NEEDS", ())
    if needs and len(command.words) == 1:
        lines += ["", f"Needs of the host (`writewise doctor`): {', '.join(needs)}."]
    return lines


def synopsis(command: Command) -> str:
    """Return the command with its arguments; the table has its options."""
    words = [command.name]
    if not command.words:
        return f"{command.name} COMMAND …"
    if command.subcommands:
        return " ".join([*words, "{" + "|".join(c.words[-1] for c in command.subcommands) + "}"])
    if any(action.option_strings for action in command.actions):
        words.append("[OPTION…]")
    return " ".join([*words, *(_written(a) for a in command.actions if not a.option_strings)])


def _written(action: argparse.Action) -> str:
    """Return `-o, --output FILE`, or the argument's name."""
    if not action.option_strings:
        return _value(action)
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {_value(action)}"


def _value(action: argparse.Action) -> str:
    if action.metavar is None and action.choices is not None:
        text = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        text = str(action.metavar or action.dest.upper())
    if action.nargs == "?":
        return f"[{text}]"
    return f"{text}…" if action.nargs in ("*", "+") and not text.endswith("…") else text


def _help(command: Command, action: argparse.Action) -> str:
    values = {**vars(action), "prog": command.parser.prog}
    return str(action.help) % values


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
