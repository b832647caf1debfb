# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/reference/contracts.md run, and it names every word of the language."""

from __future__ import annotations

import re
import shlex

import pytest

from contracts import vocabulary
from contracts.loading import SYNTAXES
from contracts.model import MAX_RULES, MAX_SLOTS, CallType, Measurement
from contracts.shared import units
from profiler.cli.main import main
from tests.places import REPOSITORY

TEXT = (REPOSITORY / "docs/reference/contracts.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
CONSOLE = "".join(block for language, block in BLOCKS if language == "console")
COMMANDS = re.findall(r"^\$ writewise (.*)\n((?:(?!\$ ).*\n)*)", CONSOLE, re.MULTILINE)
WORDS = (
    *(word.value for word in (*CallType, *Measurement)),
    *(*vocabulary.CALL_TYPES_OF_MPI, vocabulary.NO_CALLS, vocabulary.THROTTLE),
)


def test_the_examples_in_both_syntaxes_are_one_contract():
    parsed = [
        SYNTAXES[language].parse(block, language)
        for language, block in BLOCKS
        if language in SYNTAXES
    ]
    assert len(parsed) == 2
    assert parsed[0] == parsed[1]


def test_the_example_in_the_how_to_is_a_valid_contract():
    text = (REPOSITORY / "docs/how-to/write-a-contract.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    contract = SYNTAXES["yaml"].parse(block, "yaml")
    assert [rule.label for rule in contract.rules] == ["slow_writes", "small_writes"]


def test_every_command_shown_is_found():
    assert len(COMMANDS) == CONSOLE.count("$ ") == 3


@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_a_command_prints_what_the_page_shows(capfd, monkeypatch, command, output):
    monkeypatch.chdir(REPOSITORY)
    main(shlex.split(command))
    printed = capfd.readouterr()
    assert printed.out + printed.err == output


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_named(word):
    assert f"`{word}`" in TEXT


@pytest.mark.parametrize("unit", [*units.BYTES_PER_UNIT, *units.NS_PER_UNIT])
def test_every_unit_is_named(unit):
    assert re.search(rf"[` ]{unit}[` ]", TEXT)


def test_the_page_has_the_limits_of_the_model():
    assert f"at most {MAX_RULES} rules with at most {MAX_SLOTS} distinct combinations" in TEXT
