# SPDX-License-Identifier: Apache-2.0
"""What `--help` shows: the common options on one screen, and every option with `--help-all`."""

from __future__ import annotations

import argparse

import pytest

from profiler.cli import commands
from profiler.cli.main import build_parser, main
from profiler.cli.parser import Parser, is_rare

MAX_LINES, COLUMNS = 40, 80


def parsers() -> dict[str, Parser]:
    """Every parser by what is typed for it: `writewise sweep`, `writewise transfer tune`."""
    found: dict[str, Parser] = {}

    def add(parser: Parser) -> None:
        found[parser.prog] = parser
        for each in parser.subparsers.values():
            add(each)

    add(build_parser())
    return found


PARSERS = parsers()


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def test_actions_have_parsers_of_their_own():
    assert len(PARSERS) > len(commands.ALL)
    assert {"writewise transfer tune", "writewise lab up", "writewise help"} <= set(PARSERS)


@pytest.mark.parametrize("name", PARSERS)
def test_the_help_fits_one_screen(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*name.split()[1:], "--help"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MAX_LINES, f"{len(lines)} lines"
    assert max(map(len, lines)) <= COLUMNS
    assert lines[0].startswith(f"usage: {name} [OPTION…]")


@pytest.mark.parametrize("name", PARSERS)
def test_the_whole_help_has_every_option(name, capsys):
    with pytest.raises(SystemExit):
        main([*name.split()[1:], "--help-all"])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= COLUMNS
    parser = PARSERS[name]
    for action in parser.arguments:
        for option in action.option_strings:
            assert option in shown
    rare = [each.option_strings[-1] for each in parser.arguments if is_rare(each)]
    assert [option for option in rare if f"  {option} " in parser.format_help()] == []


@pytest.mark.parametrize("name", PARSERS)
def test_every_argument_says_what_it_is(name):
    for action in PARSERS[name].arguments:
        assert action.help or action.nargs == argparse.PARSER, action


@pytest.mark.parametrize("name", PARSERS)
def test_metavars_are_of_one_style(name):
    for action in PARSERS[name].arguments:
        if action.option_strings and action.nargs != 0:
            assert action.metavar, f"{action.option_strings[-1]} has none"
            assert str(action.metavar).upper() == str(action.metavar)


def test_an_option_takes_one_value_or_none():
    wrong = [
        (name, action.option_strings)
        for name, parser in PARSERS.items()
        for action in parser.arguments
        if action.option_strings and action.nargs not in (None, 0)
    ]
    assert wrong == []


@pytest.mark.parametrize("words", [["sweep"], ["transfer", "tune"], ["contract", "convert"], []])
def test_help_is_a_command_too(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["help", *words])
    assert ended.value.code == 0
    by_command = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert by_command == capsys.readouterr().out


def test_help_for_an_unknown_command_suggests_one(capsys):
    assert main(["help", "swep"]) == 2
    assert "did you mean 'sweep'?" in capsys.readouterr().err
