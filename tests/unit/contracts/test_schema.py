# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of the YAML syntax accepts and refuses what the parser does."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given

from contracts import schema, yaml_file
from contracts.loading import LIBRARY
from contracts.model import CallType, Measurement
from contracts.shared.errors import InvalidFileError
from profiler.cli.main import main
from tests.places import DATA
from tests.unit.contract_strategies import contracts

FILE = Path(schema.__file__).with_name("schema.json")
SCHEMA = json.loads(FILE.read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
CONTRACTS = DATA / "contracts"
GOOD = [*LIBRARY.glob("*.yaml"), *CONTRACTS.glob("good/*.yaml")]
RULE = {"label": "a", "path": "/", "calls": "write", "measure": "count", "threshold": 1}
THRESHOLDS = {"size": "1MB", "latency": "1us", "count": "1k"}


def is_accepted_by_both(rule: dict, timeframe: str = "1s") -> bool:
    """Return whether the parser and the schema accept this rule; they must agree."""
    document = {"timeframe": timeframe, "rules": [rule]}
    is_valid = VALIDATOR.is_valid(document)
    try:
        yaml_file.parse(yaml.safe_dump(document), "rule")
    except InvalidFileError:
        assert not is_valid, rule
    else:
        assert is_valid, rule
    return is_valid


def test_the_schema_file_is_generated_from_the_model():
    message = "run: writewise contract schema > contracts/schema.json"
    assert FILE.read_text() == schema.schema_text(), message


def test_the_schema_is_valid():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_command_prints_the_schema(capsys):
    assert main(["contract", "schema"]) == 0
    assert capsys.readouterr().out == FILE.read_text()


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_good_contracts_are_valid(path):
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


@given(contracts())
def test_every_contract_is_valid(contract):
    VALIDATOR.validate(yaml.safe_load(yaml_file.render(contract)))


JOINED = (
    *("read+write", "mmap+write+read", "open+write", "read+seek", "write+fsync", "read+accept"),
    *("connect+accept", "write+write", "read+write+read", "none+write", "write+", "+write"),
    *("mpi_read", "write+mpi_read", "write + read", "writes"),
)


@pytest.mark.parametrize("measurement", Measurement)
def test_parser_and_schema_agree_on_combinations(measurement):
    words = [*(call_type.value for call_type in CallType), "none", *JOINED]
    threshold = THRESHOLDS[measurement.quantity.value]
    taken = [
        is_accepted_by_both(
            {
                **{"label": "a", "path": path, "calls": calls, "sizes": sizes},
                **{"measure": measurement.value, "threshold": threshold},
            }
        )
        for calls, path, sizes in itertools.product(words, ("/", "/data"), ("all", "1KiB-"))
    ]
    assert any(taken)
    assert not all(taken)


@pytest.mark.parametrize("measurement", Measurement)
@pytest.mark.parametrize(
    "threshold", [1, -1, 2**64, 1.5, True, None, "1", "1k", "1us", "1MiB", "1.5MiB", "1G"]
)
def test_parser_and_schema_agree_on_thresholds(measurement, threshold):
    calls = "none" if not measurement.is_of_calls else "write"
    calls = "seek" if measurement is Measurement.SEEK_DISTANCE else calls
    rule = {"calls": calls, "measure": measurement.value, "threshold": threshold}
    units: dict[str, list[object]] = {
        "size": ["1MiB", "1.5MiB", "1G"],
        "latency": ["1us"],
        "count": [1, "1", "1k"],
    }
    is_taken = threshold is not True and threshold in units[measurement.quantity.value]
    assert is_accepted_by_both({**RULE, **rule}) == is_taken


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("label", ["a", "a b", "é", 7, True, "x" * 128], ["", " a", "a ", "#a", "a\tb", "x" * 129]),
        ("path", ["/", "/a/b", "/..a/b..", "/a b"], ["", "a", "/a/..", "/../a", "/a ", "/\x1b"]),
        (
            "sizes",
            ["all", "-", "-4KiB", "1B-", "0B-4KiB", "1KiB - 1MiB", "1K-1.5M"],
            ["", "1KiB", "1-2", "ALL"],
        ),
        ("measure", ["count"], ["counts", "p95", "", None]),
        ("calls", ["write", "glob"], ["WRITE", "", None, ["write"]]),
        ("volume", [], [1]),
    ],
)
def test_parser_and_schema_agree_on_each_field(field, good, bad):
    assert [value for value in good if not is_accepted_by_both({**RULE, field: value})] == []
    assert [value for value in bad if is_accepted_by_both({**RULE, field: value})] == []


@pytest.mark.parametrize("field", RULE)
def test_parser_and_schema_agree_on_optional_fields(field):
    assert not is_accepted_by_both({key: value for key, value in RULE.items() if key != field})


@pytest.mark.parametrize("timeframe", ["0s", "00ms", "0.0s", "1", "1 h", "1H", "", None, ["1s"]])
def test_parser_and_schema_refuse_an_invalid_timeframe(timeframe):
    assert all(is_accepted_by_both(RULE, good) for good in ("1000s", "1.5s", "20m", "1h", "0.5ms"))
    assert not is_accepted_by_both(RULE, timeframe)


def test_sizes_that_are_all_go_with_every_call_in_both():
    sizes = ("-", "0B-", "00KiB -", "0.0K-", "-0B", "1B-")
    taken = [
        size for size in sizes if is_accepted_by_both({**RULE, "calls": "open", "sizes": size})
    ]
    assert taken == ["-", "0B-", "00KiB -", "0.0K-"]


def test_a_contract_has_no_other_keys():
    assert VALIDATOR.is_valid({"timeframe": "1s", "rules": [RULE]})
    assert not VALIDATOR.is_valid({"timeframe": "1s", "rules": [RULE], "version": 2})


@pytest.mark.parametrize("rules", [[], [RULE] * 65, {}, None, "rules"])
def test_a_contract_has_1_to_64_rules(rules):
    assert not VALIDATOR.is_valid({"timeframe": "1s", "rules": rules})


def test_the_schema_refuses_bad_contracts_as_far_as_it_can_express():
    for name in ("mismatches.yaml", "fields.yaml", "no-rules.yaml", "a-list.yaml"):
        assert not VALIDATOR.is_valid(yaml.safe_load((CONTRACTS / "bad" / name).read_text())), name
