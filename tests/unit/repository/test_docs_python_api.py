# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/reference/python-api.md run, on the results of a made-up sweep.

With WRITEWISE_WRITE_DOCS set what they print is written instead of compared.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re

import pytest

from profiler import api
from tests.places import REPOSITORY
from tests.unit.studies import Study, ratio

PAGE = REPOSITORY / "docs/reference/python-api.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def results(tmp_path, monkeypatch):
    study = Study(durable_s=31.5).tried(ratio(60, 10), 4.0, stall_share=0.0)
    study.results.save(tmp_path / "writewise-results.json")
    monkeypatch.chdir(tmp_path)
    return study.results


def printed(source, names):
    """Return a block with the output of its lines."""
    lines = []
    for example in doctest.DocTestParser().get_examples(source):
        first, *others = example.source.rstrip("\n").split("\n")
        lines += [f">>> {first}", *(f"... {line}" for line in others)]
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(example.source, PAGE.name, "single"), names)
        lines += output.getvalue().splitlines()
    return "\n".join(lines) + "\n"


def test_the_examples_print_what_the_page_shows(results):
    names: dict[str, object] = {}
    text = PAGE.read_text()
    wanted = BLOCK.sub(lambda block: f"```python\n{printed(block[1], names)}```", text)
    if os.environ.get("WRITEWISE_WRITE_DOCS"):
        PAGE.write_text(wanted)
    assert len(BLOCK.findall(text)) == 5
    assert PAGE.read_text() == wanted, "run `make docs`"


def test_every_column_and_name_is_on_the_page(results):
    text = PAGE.read_text()
    rows = api.load("writewise-results.json").trials()
    assert len(rows) == len(results.trials)
    columns = {name for row in rows for name in row if not name.startswith("vm.")}
    assert [name for name in sorted(columns) if f"`{name}`" not in text] == []
    assert all(name in text for name in api.__all__ if name != "Sweep")


def test_a_trial_without_an_observation_is_a_row_too():
    sweep = api.Sweep(Study().add("candidate", ratio(30), 1.0, problem="it failed").results)
    last = sweep.trials()[-1]
    assert (last["problem"], last["return_s"], last["vm.dirty_ratio"]) == ("it failed", None, 30)


def test_a_wrong_input_is_reported(results, tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(api.WritewiseError, match=r"other\.json"):
        api.load("other.json")
    with pytest.raises(api.WritewiseError, match="dirty_ratio = 400 is out of range"):
        api.load("writewise-results.json").predict({"vm.dirty_ratio": 400})


def test_a_limit_of_the_caller_wins(results):
    advice = api.load("writewise-results.json").recommend(max_at_risk_bytes=2**20)
    assert advice["limits"]["max_at_risk_bytes"] == 2**20
    assert not advice["change_recommended"]


@pytest.mark.parametrize(
    ("values", "others", "what"),
    [
        ({}, {"burst_bytes": 0}, "burst_bytes = 0 is out of range"),
        ({}, {"burst_bytes": -1}, "burst_bytes = -1 is out of range"),
        ({}, {"burst_bytes": "1GiB"}, "burst_bytes = '1GiB' is not a whole number"),
        ({}, {"dirtyable_bytes": 0}, "dirtyable_bytes = 0 is out of range"),
        ({"vm.dirty_ratio": True}, {}, "vm.dirty_ratio = True is not a whole number"),
        ({"vm.dirty_ratio": "40"}, {}, "vm.dirty_ratio = '40' is not a whole number"),
        ({"vm.dirty_ratio": 40, "vm.dirty_bytes": 2**30}, {}, "set the same threshold"),
        (
            {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 90},
            {},
            "background must be below dirty",
        ),
    ],
    ids=str,
)
def test_predict_refuses_what_the_command_refuses(values, others, what, results):
    with pytest.raises(api.WritewiseError, match=what):
        api.Sweep(results).predict(values, **others)


@pytest.mark.parametrize(
    "limit",
    [
        {"max_at_risk_bytes": -1},
        {"max_at_risk_bytes": "1GiB"},
        {"max_durable_s": -0.5},
        {"max_durable_s": float("nan")},
    ],
    ids=str,
)
def test_a_limit_is_a_number_of_0_or_more(limit, results):
    with pytest.raises(api.WritewiseError, match="is not a limit"):
        api.Sweep(results).recommend(**limit)
