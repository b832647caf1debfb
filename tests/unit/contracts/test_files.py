# SPDX-License-Identifier: Apache-2.0
"""Contract files: each good one means the same in both syntaxes, each bad one gets every error."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts import mistral, vocabulary, yaml_file
from contracts.fields import MAX_PROBLEMS
from contracts.loading import LIBRARY, SYNTAXES, load_contract
from contracts.model import MAX_RULES, MAX_SLOTS, CallType, Measurement, Rule, SizeRange
from contracts.shared.errors import InvalidFileError
from tests.places import DATA

CONTRACTS = DATA / "contracts"
GOOD = sorted(CONTRACTS.glob("good/*.mistral"))
BAD = sorted(path for path in CONTRACTS.glob("bad/*") if path.suffix != ".errors")


def name_of(path: Path) -> str:
    return path.name


def test_the_case_studys_contract_has_the_rules_of_the_case_study():
    contract = load_contract(str(LIBRARY / "case-study.mistral"))
    assert contract.timeframe_ns == 1000 * 10**9
    everywhere = ("/", (CallType.WRITE,), SizeRange(0, None))
    assert contract.rules == (
        Rule("mean_lat_write", *everywhere, Measurement.MEAN_LATENCY, 1000),
        Rule("num_write", *everywhere, Measurement.COUNT, 1),
        Rule("total_write", *everywhere, Measurement.BANDWIDTH, 1),
    )


def test_the_default_contract_is_that_of_the_case_study():
    default = load_contract(None)
    assert default == load_contract(str(LIBRARY / "case-study.mistral"))
    assert default.source.endswith("case-study.yaml")


def test_the_case_studys_contract_may_have_windows_line_ends():
    text = (LIBRARY / "case-study.mistral").read_text()
    assert mistral.parse(text.replace("\n", "\r\n"), "dos") == load_contract(None)


@pytest.mark.parametrize("path", GOOD, ids=name_of)
def test_a_good_file_means_the_same_in_both_syntaxes(path):
    contract = load_contract(str(path))
    assert contract == load_contract(str(path.with_suffix(".yaml")))


@pytest.mark.parametrize("path", GOOD, ids=name_of)
@pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=SYNTAXES)
def test_a_good_file_is_written_and_read_back(path, syntax):
    contract = load_contract(str(path))
    assert syntax.parse(syntax.render(contract), "rendered") == contract


def test_every_good_yaml_file_has_its_twin():
    assert {path.stem for path in CONTRACTS.glob("good/*.yaml")} == {path.stem for path in GOOD}


@pytest.mark.parametrize("path", BAD, ids=name_of)
def test_a_bad_file_names_every_error_and_its_place(path):
    with pytest.raises(InvalidFileError) as raised:
        load_contract(str(path))
    expected = path.with_name(path.name + ".errors").read_text().splitlines()
    assert list(raised.value.problems) == expected
    assert raised.value.message.startswith(str(path))


def test_the_largest_contract_fills_the_kernels_tables():
    contract = load_contract(str(CONTRACTS / "good" / "largest.mistral"))
    assert (len(contract.rules), len(contract.slots)) == (MAX_RULES, MAX_SLOTS)


def test_a_long_list_of_errors_is_cut_off():
    with pytest.raises(InvalidFileError) as raised:
        mistral.parse("2,monitortimeframe,1s\n" + "garbage\n" * 10_000, "garbage")
    assert len(raised.value.problems) == MAX_PROBLEMS
    assert raised.value.problems[-1].endswith("the rest of the file was not read")


@pytest.mark.parametrize("word", vocabulary.CALL_TYPES_OF_MPI)
def test_every_mpi_call_type_is_refused_by_name(word):
    problem = problem_of(f"2,monitortimeframe,1s\na,/,write+{word},all,count,1\n")
    assert problem.startswith(f"line 2: Writewise cannot measure Mistral's '{word}'")


def problem_of(text: str) -> str:
    with pytest.raises(InvalidFileError) as raised:
        mistral.parse(text, "contract")
    (problem,) = raised.value.problems
    return problem


@pytest.mark.parametrize("parse", [mistral.parse, yaml_file.parse])
def test_a_source_cannot_move_the_cursor(parse):
    with pytest.raises(InvalidFileError) as raised:
        parse("", "\x1b[2Jcontract\udcff")
    assert raised.value.message.startswith(r"\x1b[2Jcontract\udcff: ")
