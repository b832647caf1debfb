# SPDX-License-Identifier: Apache-2.0
"""The words typed, in one order: options as `--name=value`, then the positional arguments.

argparse takes `-1GB` for an option, loses an optional positional that options interrupt, and says
little about a misspelled name. Here every option takes one value or none, so the words can be
classified beforehand, and an error is one sentence. Old names and forms are also replaced here
(`profiler.cli.renamed`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted, suggestion
from profiler.cli.renamed import flag_with_file, new_name, value_from_positional

_TAKES_THE_REST = (argparse.PARSER, argparse.REMAINDER)
_LISTS = (argparse.ZERO_OR_MORE, argparse.ONE_OR_MORE)
_OPTIONAL = (argparse.OPTIONAL, argparse.ZERO_OR_MORE)


def arranged(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return the words in an order that argparse cannot misread. Raises UsageError."""
    return _Arrangement(parser, list(words)).result()


class _Arrangement:
    """The words of one parser, taken from the left."""

    def __init__(self, parser: argparse.ArgumentParser, left: list[str]) -> None:
        self.parser, self.left = parser, left
        self.options: list[str] = []
        self.positionals: list[str] = []
        #: Positionals right after the value of a repeatable option, with that option.
        self.spread: list[tuple[str, str]] = []
        self.known: dict[str, argparse.Action] = self.parser._option_string_actions
        self.places = [each for each in self.parser._actions if not each.option_strings]
        self.rest = next((each for each in self.places if each.nargs in _TAKES_THE_REST), None)

    def result(self) -> list[str]:
        """Return all words. Raises UsageError."""
        after: str | None = None  # the repeatable option whose value came last
        while self.left:
            word = self.left.pop(0)
            if word == "--":
                self._check_command()
                self.positionals += self.left
                break
            if word.startswith("-") and word != "-":
                after = self._option(word)
                continue
            self.positionals.append(word)
            if self.rest is not None:
                self.positionals += self.left
                break
            if after:
                self.spread.append((after, word))
        return self.options + self._placed()

    def _check_command(self) -> None:
        """Raise UsageError for `--` without a command: its variable may be unset."""
        if self.rest is not None and self.rest.nargs == argparse.REMAINDER and not self.left:
            raise UsageError("COMMAND is missing after --", self._see())

    def _option(self, word: str) -> str | None:
        """Take an option and its value; return its name if it may be repeated."""
        name, equals, value = word.partition("=")
        if word[:2] in self.known and word[1] != "-":
            name, equals, value = self._short(word)
        name = new_name(self.parser.prog, name, _notice)
        action = self.known.get(name)
        if action is None:
            raise self._unknown(name)
        if action.nargs == 0:
            self._flag(name, value if equals else None)
            return None
        name = action.option_strings[-1]
        self.options.append(f"{name}={value if equals else self._value(name, action)}")
        return name if isinstance(action, argparse._AppendAction) else None

    def _short(self, word: str) -> tuple[str, str, str]:
        """Take short options: `-qv` is `-q -v`, and `-oFILE` is `-o FILE`."""
        name, more = word[:2], word[2:]
        if self.known[name].nargs == 0 and more:
            self.left.insert(0, f"-{more}")
            return name, "", ""
        return name, "=" if more else "", more

    def _flag(self, name: str, value: str | None) -> None:
        file = flag_with_file(self.parser.prog, name, value, self.left, _notice)
        if file is None and value is not None:
            raise UsageError(f"{name} takes no value", f"pass {name} alone")
        self.options += [name] if not file else [name, f"--output={file}"]

    def _value(self, name: str, action: argparse.Action) -> str:
        """Return the next word, whatever it begins with, unless it is an option's name."""
        is_there = bool(self.left) and self.left[0].partition("=")[0] not in (*self.known, "--")
        if is_there:
            return self.left.pop(0)
        old = value_from_positional(self.parser.prog, name, self.positionals, _notice)
        if old is not None:
            return old
        metavar = action.metavar or action.dest.upper()
        raise UsageError(f"{name} needs a value", f"write {name} {metavar}; {self._see()}")

    def _placed(self) -> list[str]:
        """Return the positional arguments after a check of their number."""
        if self.rest is not None:
            return self._of_rest(self.rest)
        has_list = any(each.nargs in _LISTS for each in self.places)
        most = sys.maxsize if has_list else len(self.places)
        for name, word in self.spread if len(self.positionals) > most else ():
            _notice(f"pass {name} once for each of its values")
            self.positionals.remove(word)
            self.options.append(f"{name}={word}")
        if len(self.positionals) > most:
            raise UsageError(f"unexpected argument {quoted(self.positionals[most])}", self._see())
        needed = [each for each in self.places if each.nargs not in _OPTIONAL]
        if len(self.positionals) < len(needed) and not self._asks_for_help():
            missing = needed[len(self.positionals)]
            raise UsageError(f"{missing.metavar or missing.dest} is missing", self._see())
        needs_mark = any(word.startswith("-") and word != "-" for word in self.positionals)
        return [*(["--"] if needs_mark else []), *self.positionals]

    def _of_rest(self, rest: argparse.Action) -> list[str]:
        """Return a command or an action, which must be known, and its words."""
        if rest.nargs == argparse.REMAINDER:
            return ["--", *self.positionals] if self.positionals else []
        actions, noun = list(rest.choices or ()), str(rest.metavar).lower()
        if not self.positionals:
            if self._asks_for_help():
                return []
            raise UsageError(f"{rest.metavar} is missing", self._see())
        word = self.positionals[0]
        if word not in actions:
            hint = suggestion(word, actions) or f"{noun}s are {', '.join(actions)}."
            raise UsageError(f"unknown {noun} {quoted(word)}", self._see(hint))
        return self.positionals

    def _asks_for_help(self) -> bool:
        """Return whether an option prints something and ends the program."""
        ending = [name for name in self.options if name in ("-h", "--help", "--help-all")]
        return bool(ending) or "--version" in self.options

    def _unknown(self, name: str) -> UsageError:
        """Return the error for an unknown option, with the one that may be meant."""
        after = self._after_its_command(name)
        if after:
            return after
        long_names = [each for each in self.known if each.startswith("--")]
        return UsageError(f"unknown option {quoted(name)}", self._see(suggestion(name, long_names)))

    def _after_its_command(self, name: str) -> UsageError | None:
        """Return the error for an option of a command or action that is among the words left."""
        choices = self.rest.choices if self.rest is not None else None
        if not isinstance(choices, Mapping):
            return None
        command = next((word for word in self.left if word in choices), None)
        action = choices[command]._option_string_actions.get(name) if command else None
        if action is None:
            return None
        value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
        return UsageError(
            f"{name} is an option of {command}",
            f"write it after the command: {self.parser.prog} {command} {name}{value}",
        )

    def _see(self, first: str = "") -> str:
        """Return where the help is, to follow another sentence."""
        help_call = f"`{self.parser.prog} --help`"
        return f"{first} See {help_call}" if first else f"see {help_call}"


def _notice(sentence: str) -> None:
    print(f"writewise: {sentence}", file=sys.stderr)
