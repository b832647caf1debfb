# SPDX-License-Identifier: Apache-2.0
"""Files that are truncated, damaged, hostile, huge or of another version: one sentence each."""

from __future__ import annotations

import contextlib
import copy
import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.shared.errors import WritewiseError
from contracts.shared.text import is_unprintable
from profiler.cli.main import main
from profiler.compare.comparing import compare_subjects
from profiler.compare.reading import read_subject
from profiler.report.comparison import comparison_file_document
from tests.unit.profiler.client_bench.test_client_bench import cell
from tests.unit.profiler.compare.documents import bench, profile, pull, write
from tests.unit.studies import Study, ratio

GOOD = pull()
TEXT = json.dumps(GOOD)
HOSTILE = {
    "empty": "",
    "blank": " \n",
    "a byte order mark": "\ufeff",
    "a blank byte order mark": "\ufeff \n",
    "truncated": TEXT[: len(TEXT) // 2],
    "a second one truncated": TEXT + TEXT[:100],
    "text behind": TEXT + " and more",
    "a list": "[1]",
    "a number": "7",
    "nested": "[" * 200_000,
    "nested objects": '{"a":' * 200_000,
    "NaN": TEXT.replace("20.0", "NaN"),
    "Infinity": TEXT.replace("20.0", "Infinity"),
    "a large number": TEXT.replace("20.0", "1e999"),
    "a long number": TEXT.replace("20.0", "9" * 10_000),
    "a long whole number": TEXT.replace("20.0", "9" * 400),
    "a negative time": TEXT.replace("20.0", "-20.0"),
    "a text as time": TEXT.replace("20.0", '"20"'),
    "a boolean as time": TEXT.replace("20.0", "true"),
    "no time": TEXT.replace('"return_s"', '"return"'),
    "another version": TEXT.replace('"version": 1', '"version": 2'),
    "no version": TEXT.replace('"version": 1', '"v": 1'),
    "a version that is a list": TEXT.replace('"version": 1', '"version": [1]'),
    "another schema": TEXT.replace("writewise-pull", "writewise-doctor"),
    "a schema of others": TEXT.replace("writewise-pull", "prometheus"),
    "a schema that is a list": TEXT.replace('"writewise-pull"', '["writewise-pull"]'),
    "an escape as schema": TEXT.replace("writewise-pull", "writewise-\\u001b[2J"),
    "two kinds": TEXT + json.dumps(profile()),
    "many documents": "{}\n" * 2000,
    "many pulls": (TEXT + "\n") * 1001,
    "findings as an object": json.dumps({**GOOD, "findings": {}}),
    "findings of texts": json.dumps({**GOOD, "findings": ["a"]}),
    "an unknown unit": json.dumps({**GOOD, "findings": [{**GOOD["findings"][0], "unit": "m"}]}),
    "many findings": json.dumps({**GOOD, "findings": [{}] * 100_000}),
    "a long label": json.dumps(
        {**GOOD, "findings": [{**GOOD["findings"][0], "label": "a" * 9999}]}
    ),
    "measured as a list": json.dumps({**GOOD, "measured": []}),
    "two sweeps": json.dumps({"schema": "writewise-sweep", "version": 1}) * 2,
    "an empty sweep": json.dumps({"schema": "writewise-sweep", "version": 1}),
    "empty results": json.dumps({"format": "writewise-results", "version": 4}),
    "an empty recommendation": json.dumps({"format": "writewise-recommendation", "version": 1}),
    "two recommendations": json.dumps({"format": "writewise-recommendation", "version": 1}) * 2,
    "binary": "\0" * 100,
}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("plan-cheapest", "is a list of volumes (plan --cheapest), and a comparison is of one"),
        ("govern", "is the work of one governor, and no other one meets the same bursts"),
        ("doctor", "is a document 'writewise-doctor', which is not compared"),
    ],
)
def test_what_is_not_compared_has_its_reason(schema, said, tmp_path, capsys):
    (tmp_path / "a.json").write_text(json.dumps({"schema": f"writewise-{schema}", "version": 1}))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", HOSTILE)
def test_a_bad_file_is_one_sentence_and_no_traceback(name, tmp_path, capsys):
    (tmp_path / "bad.json").write_text(HOSTILE[name])
    good = str(write(tmp_path / "good.json", GOOD))
    assert main(["compare", good, str(tmp_path / "bad.json")]) == 2
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert printed.out == "" and lines[0].startswith("writewise: ")
    assert "bad.json" in lines[0] and "bug" not in printed.err and "Traceback" not in printed.err
    assert not any(map(is_unprintable, "".join(lines)))
    assert len(lines) <= 2 or ("errors" in lines[0] and len(lines) < 30)


@pytest.mark.parametrize("make", ["missing", "directory", "huge", "latin"])
def test_what_cannot_be_read_is_one_sentence(make, tmp_path, capsys):
    path = tmp_path / "bad.json"
    if make == "directory":
        path.mkdir()
    elif make == "huge":
        with path.open("wb") as file:
            file.truncate(2**40)
    elif make == "latin":
        path.write_bytes(b"\xff\xfe{}")
    assert main(["compare", str(path), str(path)]) == 2
    printed = capsys.readouterr().err
    assert "Traceback" not in printed and len(printed.splitlines()) <= 2


ESCAPES = "\x1b[2J\u202e\r\n|"


def test_text_of_files_cannot_move_the_cursor(tmp_path, capsys):
    hostile = copy.deepcopy(GOOD)
    hostile["findings"][0].update(label=ESCAPES, path=ESCAPES, call_types=ESCAPES)
    hostile["measured"] = {"host": ESCAPES, ESCAPES: ESCAPES, "sysctls": {ESCAPES: 1}}
    hostile["ended_by"], hostile["why"] = ESCAPES, {"cause": ESCAPES}
    hostile["evidence"] = {"limited_by": ESCAPES}
    before, after = write(tmp_path / "a.json", GOOD), write(tmp_path / "b.json", hostile)
    assert main(["compare", str(before), str(after)]) == 0
    printed = capsys.readouterr().out
    assert not any(is_unprintable(each) for each in printed.replace("\n", ""))
    assert main(["compare", str(before), str(after), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    def texts(value):
        if isinstance(value, dict):
            return [text for pair in value.items() for each in pair for text in texts(each)]
        if isinstance(value, list):
            return [text for each in value for text in texts(each)]
        return [value] if isinstance(value, str) else []

    assert not any(map(is_unprintable, "".join(texts(document))))


def places(value, path=()):
    """Yield the path of each value of a document."""
    yield path
    items = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value) if isinstance(value, list) else items:
        yield from places(each, (*path, key))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """One document of each form of file."""
    folder = tmp_path_factory.mktemp("originals")
    Study().tried(ratio(80), 4.0).results.save(folder / "results.json")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main(["advise", str(folder / "results.json"), "--json", "--output-dir", str(folder)])
    return folder, [
        GOOD,
        profile(),
        bench(cell("direct", 2.0, 2.1), cell("s5cmd", 1.0)),
        json.loads(output.getvalue()),
        json.loads((folder / "recommendation.json").read_text()),
        json.loads((folder / "results.json").read_text()),
    ]


JUNK = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    *(st.just([]), st.just({}), st.just([[]]), st.just({"a": None}), st.just(10**400)),
)


@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_changed_value_is_a_comparison_or_a_sentence(originals, data):
    folder, documents = originals
    document = copy.deepcopy(data.draw(st.sampled_from(documents)))
    path = data.draw(st.sampled_from([each for each in places(document) if each]))
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = data.draw(JUNK)
    file = write(folder / "changed.json", document)
    try:
        side = read_subject(file)
        found = compare_subjects(side, read_subject(write(folder / "good.json", GOOD)))
        json.dumps(comparison_file_document(found), allow_nan=False)
        json.dumps(comparison_file_document(compare_subjects(side, side)), allow_nan=False)
    except WritewiseError as error:
        assert error.message
