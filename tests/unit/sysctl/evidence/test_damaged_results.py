# SPDX-License-Identifier: Apache-2.0
"""Results files that are damaged, foreign or malicious: an error to act on, or figures that can be.

A recorded file of the lab is changed in a few places, and read, fitted, predicted from and advised
on. Whatever comes of it, no other exception than a WritewiseError may leave.
"""

from __future__ import annotations

import copy
import io
import json
import math
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from contracts.shared.errors import WritewiseError
from profiler.cli.main import main
from profiler.report.advice import print_advice
from profiler.report.advice_document import advice_document
from sysctl.advice.advise import advise
from sysctl.evidence.circumstances import circumstances_of
from sysctl.evidence.prediction import fit
from sysctl.evidence.results import CANDIDATE, FORMAT_VERSION, PRESENT, PRICE, RECHECK, load
from sysctl.evidence.runs import Runs
from tests.places import DATA
from tests.unit.sweeps import PRICE_SEEN

RECORDED = DATA / "results-version-2.json"


def shortened():
    """A sweep with every kind of trial, with a part of each course.

    Two present runs, three candidates, a recheck in two pairs, a mount option and a knob of the
    disk in pairs of their own, and two runs with a neighbour.
    """
    document = json.loads(RECORDED.read_text())
    present, candidates = (
        [trial for trial in document["trials"] if trial["role"] == role]
        for role in (PRESENT, CANDIDATE)
    )
    fastest = min(candidates, key=lambda trial: trial["observation"]["return_s"])
    extras = [
        {**fastest, "setting": {**fastest["setting"], **extra}}
        for extra in ({"mount_options": "noatime"}, {"device": {"queue/scheduler": "none"}})
    ]
    pairs = [
        {**trial, "role": role, "pair": pair}
        for pair in (0, 1)
        for role, trial in ((PRESENT, present[0]), (RECHECK, fastest))
    ] + [
        {**trial, "role": RECHECK, "pair": pair} for pair in (2, 3) for trial in (fastest, *extras)
    ]
    prices = [{**trial, "role": PRICE} for trial in (present[0], fastest)]
    trials = copy.deepcopy([*present[:2], *candidates[:2], fastest, *pairs, *prices])
    for trial in trials:
        trial["observation"]["trace"] = trial["observation"]["trace"][:60]
        if trial["role"] == PRICE:
            trial["observation"]["price"] = {**asdict(PRICE_SEEN), "ext4_data_mode": "ordered"}
    context = {**document["context"], "max_at_risk_bytes": 2**40, "max_durable_s": 1e6}
    return {
        **{name: value for name, value in document.items() if name != "context"},
        "version": FORMAT_VERSION,
        "circumstances": circumstances_of(context).to_json(),
        "trials": trials,
    }


SHORTENED = shortened()


def places(node, path=()):
    """The path to every value of a document."""
    yield path
    if isinstance(node, (dict, list)):
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(child, (*path, key))


#: Those within a course are many and alike: a few of them will do.
PLACES = [p for p in places(SHORTENED) if p and not ("trace" in p and len(p) > 4 and p[4] > 3)]
#: The same by the name of what is there, so that each kind is as likely.
BY_NAME: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
for place in PLACES:
    BY_NAME.setdefault(tuple(key for key in place if isinstance(key, str)), []).append(place)
PLACE = st.sampled_from(list(BY_NAME)).flatmap(lambda name: st.sampled_from(BY_NAME[name]))
NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 0.0, 1e-300, 1e300, 2**62, 2**63 - 1, 2**64, 10**400, math.nan]),
    st.integers(0, 2**63),
    st.floats(allow_nan=True, allow_infinity=True),
)
OTHERS = st.sampled_from([None, "", "a", "\x1b[31m", [], {}, [0], {"a": 1}, True])
#: A new value for a place, or a function of the old value.
MUTATIONS = st.one_of(
    st.tuples(st.just("put"), NUMBERS),
    st.tuples(st.just("put"), OTHERS),
    st.tuples(st.just("scale"), st.sampled_from([-1, 0, 1e-9, 0.5, 2, 1e3, 1e9])),
    st.tuples(st.sampled_from(["delete", "empty", "first", "reverse"]), st.none()),
)


def mutate(document, path, mutation):
    """Change the value at that path, if it is still there."""
    action, value = mutation
    try:
        for key in path[:-1]:
            document = document[key]
        old = document[path[-1]]
        if action == "delete":
            del document[path[-1]]
        else:
            document[path[-1]] = changed(old, action, value)
    except (KeyError, IndexError, TypeError):
        return


def changed(old, action, value):
    """Return the replacement of an old value."""
    if action == "put":
        return copy.deepcopy(value)  # of a list that is put twice, one could get into itself
    if action == "scale" and isinstance(old, (int, float)) and abs(old) < 2**64:
        return type(old)(old * value)
    if isinstance(old, list):
        return {"empty": [], "first": old[:1], "reverse": old[::-1]}.get(action, old)
    return {} if action == "empty" and isinstance(old, dict) else old


def loaded(document):
    """Read it back as a file."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        path = Path(folder, "results.json")
        path.write_text(json.dumps(document))
        return load(path)


def predicted(results):
    """Predict a few settings, memories and bursts; check that each result is possible."""
    model = fit(Runs.of(results))
    for values in ({}, {"vm.dirty_ratio": 80}, {"vm.dirty_bytes": 8192}):
        for size_bytes in (None, 1, 2**50):
            prediction = model.predict(values, burst_bytes=size_bytes, dirtyable_bytes=size_bytes)
            assert 0 < prediction.return_s <= prediction.durable_s < math.inf
            assert 0 <= prediction.peak_dirty_bytes <= (size_bytes or model.burst_bytes) * 1.001


def reported(results):
    """Write the advice as text and as JSON."""
    found = advise(results)
    print_advice(found, Console(file=io.StringIO(), width=80))
    json.dumps(advice_document(found), allow_nan=False)


def everywhere(path):
    """Return the same place in every trial, if it is a place in a trial."""
    if path[0] != "trials" or len(path) < 3:
        return [path]
    return [("trials", number, *path[2:]) for number in range(len(SHORTENED["trials"]))]


def survives(document):
    """Return whether it is read, predicted from and advised on, or refused with a remedy."""
    for use in (predicted, reported):
        try:
            use(loaded(document))
        except WritewiseError as error:
            assert error.message
            assert error.hint


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(PLACE, MUTATIONS, st.booleans()), min_size=1, max_size=4))
def test_a_damaged_file_raises_only_actionable_errors(mutations):
    document = copy.deepcopy(SHORTENED)
    for place, mutation, is_everywhere in mutations:
        for path in everywhere(place) if is_everywhere else [place]:
            mutate(document, path, mutation)
    survives(document)


@pytest.mark.parametrize("value", [0, 1, 2**40, 2**63 - 1, 1e-9, 1e18, [], {}, "", None], ids=repr)
def test_a_file_with_one_value_everywhere_raises_only_actionable_errors(value):
    for places_of_a_name in BY_NAME.values():
        document = copy.deepcopy(SHORTENED)
        for place in places_of_a_name:
            for path in everywhere(place):
                mutate(document, path, ("put", value))
        survives(document)


def without_waits_for_the_device(document):
    for trial in document["trials"]:
        trial["observation"]["durable_s"] = None


def without_traces(document):
    for trial in document["trials"]:
        trial["observation"].update(trace=[], stall_share=0.5)


def with_one_point(document):
    for trial in document["trials"]:
        trial["observation"].update(trace=[[0.5, 0, 0]], stall_share=0.5)


def only_invalid(document):
    for trial in document["trials"]:
        trial["problem"] = "another writer"


def in_every_run(name, value):
    def change(document):
        for trial in document["trials"]:
            trial["observation"][name] = value

    return change


def of_node(name, value):
    return lambda document: document["circumstances"]["node"].update({name: value})


def with_an_unknown_knob(document):
    document["trials"][0]["setting"]["sysctls"] = {"vm.swappiness": 60}


def with_a_huge_ratio(document):
    document["trials"][0]["setting"]["sysctls"]["vm.dirty_ratio"] = 10**6


def without_thresholds(document):
    document["trials"][0]["setting"]["sysctls"] = {}


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (without_waits_for_the_device, "do not show how fast the device writes"),
        (without_traces, "do not show how fast the source is"),
        (with_one_point, "do not show how fast the source is"),
        (only_invalid, "no valid run of the current settings"),
        (with_an_unknown_knob, "invalid setting: swappiness=60"),
        (with_a_huge_ratio, "vm.dirty_ratio of the current settings is out of range"),
        (without_thresholds, "have no dirty threshold"),
        (in_every_run("bytes", 0), "no bytes pulled"),
        (in_every_run("bytes", 100), "rate of the source: 22 B/s"),
        (in_every_run("dirtyable_bytes", 0), "no dirtyable memory"),
        (in_every_run("return_s", -1.0), "invalid time"),
        (in_every_run("return_s", math.nan), "invalid number: NaN"),
        (in_every_run("return_s", 5e-324), "invalid time"),
        (in_every_run("durable_s", 1e15), "invalid time"),
        (in_every_run("durable_s", 1e8), "rate of the device: 12 B/s"),
        (of_node("available_bytes", 0), "which part of the memory can be dirtied"),
        (in_every_run("dirtyable_bytes", 2**50), "which part of the memory can be dirtied"),
        (of_node("dirtyable_bytes", 4095), "dirtyable_bytes is too small"),
    ],
)
def test_the_command_says_what_is_wrong_and_what_to_do(tmp_path, capsys, damage, says):
    document, path = copy.deepcopy(SHORTENED), tmp_path / "results.json"
    damage(document)
    path.write_text(json.dumps(document))
    assert main(["predict", str(path), "--memory", "8GiB"]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert "\n  → " in shown.err
    assert shown.out == ""


def test_the_undamaged_file_is_usable():
    predicted(loaded(SHORTENED))
    assert advise(loaded(SHORTENED)).best is not None
