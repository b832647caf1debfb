# SPDX-License-Identifier: Apache-2.0
"""Any contract survives both syntaxes; any text is a contract or an InvalidFileError."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contracts import mistral, yaml_file
from contracts.loading import SYNTAXES, syntax_of
from contracts.shared.errors import InvalidFileError
from contracts.shared.text import is_unprintable, printable
from tests.unit.contract_strategies import MISTRAL_CONTRACTS, YAML_ONLY, contracts

WORDS = st.sampled_from(
    [
        *("2", "1", "monitortimeframe", "throttletimeframe", "1000s", "0s", "timeframe:", "rules:"),
        *("- label: a", "path: /", "calls: write", "write", "all", "count", "mean-latency"),
        *("none", "fsync", "p99.9", "memory", "seek", "seek-distance"),
        *("1KiB-1MiB", "-", "/", "/a/..", "label", "1us", "1B", "read+write", "mpi_read", "#"),
        *(",", ",", ",", "\n", "\n", "\n  ", "\r\n", "\\", "\\,", '"', "'", "{", "}", "[", "]"),
        *(
            "&a ",
            "*a",
            "!!set ",
            "? ",
            "<<: ",
            "|\n",
            "%YAML ",
            "---\n",
            "\t",
            "\0",
            "\x85",
            "\ufeff",
        ),
        *("\\U00110000", "\\uD800", "\u2028", "é", "9" * 5000),
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=60).map("".join))


@given(MISTRAL_CONTRACTS)
def test_a_contract_reads_back_from_mistrals_syntax(contract):
    assert mistral.parse(mistral.render(contract), "rendered") == contract


@given(contracts())
def test_rules_that_mistrals_syntax_cannot_express_are_not_written(contract):
    words = {
        word.value
        for rule in contract.rules
        for word in YAML_ONLY.intersection((*rule.call_types, rule.measurement))
    }
    if words:
        with pytest.raises(ValueError, match="Mistral has no word for ") as raised:
            mistral.render(contract)
        assert words == set(str(raised.value).split(" for ")[1].split(", "))
    else:
        assert mistral.render(contract)


@given(MISTRAL_CONTRACTS)
def test_converting_there_and_back_changes_nothing(contract):
    as_yaml = yaml_file.parse(yaml_file.render(contract), "yaml")
    assert mistral.parse(mistral.render(as_yaml), "mistral") == contract


@given(contracts())
def test_a_contract_reads_back_from_yaml(contract):
    assert yaml_file.parse(yaml_file.render(contract), "rendered") == contract


@given(MISTRAL_CONTRACTS)
def test_blanks_and_line_ends_change_nothing(contract):
    padded = mistral.render(contract).replace("\n", " \r\n\t\n# comment, with commas\n")
    assert mistral.parse(padded, "padded") == contract


@given(MISTRAL_CONTRACTS)
def test_the_syntax_is_recognized_without_a_suffix(contract):
    for name, syntax in SYNTAXES.items():
        assert syntax_of("contract", "# a comment: first\n\n" + syntax.render(contract)) == name


@given(TEXTS)
@example('"\\UFFFFFFFF"')
@example("%YAML " + "9" * 5000 + ".1\n--- a")
@example("[" * 5000)
@example("- " * 5000)
@example("{a: " * 5000)
def test_any_text_is_a_contract_or_an_invalid_file(text):
    for syntax in SYNTAXES.values():
        try:
            contract = syntax.parse(text, "fuzz")
        except InvalidFileError as error:
            assert error.problems
            assert not any(is_unprintable(char) for char in "".join(error.message.split("\n")))
        else:
            assert contract.rules


@given(st.text())
def test_printable_text_moves_no_cursor_and_leaves_letters_alone(text):
    shown = printable(text)
    assert not any(is_unprintable(char) for char in shown)
    assert shown == text or any(is_unprintable(char) for char in text)
