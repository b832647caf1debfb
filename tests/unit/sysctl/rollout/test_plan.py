# SPDX-License-Identifier: Apache-2.0
"""Plans: their sizes, and files that are damaged or were tampered with."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared.errors import UsageError
from sysctl.rollout.plan import digest, make_plan
from sysctl.rollout.plan_file import parse_plan
from tests.unit.changes import EVERYTHING
from tests.unit.rollouts import CLASS, NOW, OTHER_CLASS, plan_for

PLAN = plan_for(100_000)
DOCUMENT = PLAN.to_json()


def parsed(document):
    return parse_plan(json.dumps(document), "rollout.json")


def with_own_id(document):
    content = {k: v for k, v in document.items() if k not in ("format", "version", "id")}
    return {**document, "id": digest(content)}


def changed(path, value):
    """The document with another value at a path, and the id of its content."""
    document = copy.deepcopy(DOCUMENT)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return with_own_id(document)


def test_what_is_written_is_read():
    assert parse_plan(json.dumps(DOCUMENT, indent=1), "x") == PLAN


def test_the_same_plan_has_the_same_id_and_another_change_another():
    assert plan_for(100_000).id == PLAN.id
    assert len({plan_for(nodes).id for nodes in (5_000, 6_000, 7_000)}) == 3


def test_stages_of_a_large_fleet():
    assert [stage.share for stage in PLAN.stages] == [0.001, 0.01, 0.1, 0.5, 0.95]
    assert [stage.margin for stage in PLAN.stages[1:]] == [0.05] * 4
    assert PLAN.stages[0].margin > 0.05  # 100 nodes cannot exclude 5 %


@pytest.mark.parametrize("nodes", [50, 200, 1_000, 30_000, 10**6])
def test_every_stage_can_reach_its_votes(nodes):
    plan = plan_for(nodes)
    assert plan.stages[-1].share == pytest.approx(1 - plan.control)
    for stage in plan.stages:
        treated, kept = stage.share * nodes, plan.control * nodes
        assert stage.votes <= 0.8 / (1 / treated + 1 / kept) + 1


@pytest.mark.parametrize(
    ("nodes", "rest"),
    [
        (10, {}),
        (1_000, {"control": 0.001}),
        (1_000, {"shares": (0.5, 0.1)}),
        (1_000, {"shares": (0.99,)}),
        (1_000, {"shares": (0.001,)}),
        (1_000, {"shares": (0.0,)}),
        (1_000, {"shares": (-0.1, 0.5)}),
        (1_000, {"control": 1.5}),
    ],
)
def test_shares_that_make_no_sense_are_refused(nodes, rest):
    with pytest.raises(UsageError) as caught:
        make_plan(EVERYTHING, nodes, now=NOW, **rest)
    assert caught.value.hint


def test_later_by_what_was_measured_is_no_harm():
    evidence = EVERYTHING.evidence
    for before, after, limit in ((60.0, 90.0, 1.575), (60.0, 30.0, 1.05), (None, None, 1.05)):
        measured = replace(
            evidence,
            present=replace(evidence.present, durable_s=before),
            recommended=replace(evidence.recommended, durable_s=after),
        )
        plan = make_plan(replace(EVERYTHING, evidence=measured), 10_000)
        assert plan.limits["durable_time"] == limit
    assert PLAN.limits["peak_at_risk"] == EVERYTHING.evidence.ceiling_bytes


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("stages", 0, "share"), 0.9),
        (("control",), 0.0001),
        (("limits", "oom_kills"), 10.0),
        (("recommendation", "sysctls", 0, "value"), 99),
        (("created_at",), "2020-01-01T00:00:00+00:00"),
    ],
)
def test_an_edited_plan_is_refused(path, value):
    document = {**changed(path, value), "id": PLAN.id}
    with pytest.raises(UsageError):
        parsed(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("stages",), []),
        (("stages",), [{"share": 0.1}]),
        (("stages", 0, "share"), 0.5),
        (("stages", 0, "share"), math.nan),
        (("stages", 0, "share"), "0.1"),
        (("stages", 0, "share"), True),
        (("stages", 4, "share"), 0.99),
        (("stages", 0, "votes"), 0),
        (("stages", 0, "votes"), 1.5),
        (("stages", 0, "margin"), 0),
        (("control",), 1),
        (("control",), None),
        (("looks",), [0.5]),
        (("looks",), [0.5, 0.5, 1]),
        (("looks",), [math.inf]),
        (("limits",), {}),
        (("limits", "not_in_force"), 1),
        (("limits", "return_time"), 0.5),
        (("limits", "other"), 1),
        (("nodes",), 0),
        (("silent_after_s",), 0),
        (("silent_after_s",), math.inf),
        (("created_at",), "2026-11-24"),
        (("created_at",), 7),
        (("extra",), 1),
        (("recommendation",), None),
        (("recommendation", "sysctls", 0, "name"), "kernel.core_pattern"),
        (("recommendation", "sysctls", 0, "value"), -1),
    ],
)
def test_a_forged_plan_with_the_right_id_is_refused(path, value):
    with pytest.raises(UsageError) as caught:
        parsed(changed(path, value))
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"format": "x"}'])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(UsageError):
        parse_plan(text, "rollout.json")


def test_a_later_version_is_named():
    with pytest.raises(UsageError, match="version '3'"):
        parsed({**DOCUMENT, "version": 3})


def measured_for(class_key):
    """The recommendation of a shared study of that class."""
    return replace(EVERYTHING, evidence=replace(EVERYTHING.evidence, class_key=class_key))


def test_a_plan_for_one_class_is_of_version_2_and_says_which():
    plan = plan_for(100_000, class_key=CLASS)
    document = plan.to_json()
    assert (document["version"], document["class"]) == (2, CLASS)
    assert parsed(document) == plan
    assert plan.id not in (PLAN.id, plan_for(100_000, class_key=OTHER_CLASS).id)


def test_a_plan_for_all_classes_is_a_file_that_earlier_versions_read():
    assert DOCUMENT["version"] == 1
    assert "class" not in DOCUMENT
    assert parsed(DOCUMENT).class_key is None


@pytest.mark.parametrize("asked", [None, CLASS])
def test_the_class_is_that_of_the_recommendation(asked):
    plan = make_plan(measured_for(CLASS), 1_000, now=NOW, class_key=asked)
    assert plan.class_key == CLASS
    assert parsed(plan.to_json()) == plan


@pytest.mark.parametrize("measured", ["", "any", CLASS])
def test_any_is_all_classes(measured):
    plan = make_plan(measured_for(measured), 1_000, now=NOW, class_key="any")
    assert plan.class_key is None
    assert parsed(plan.to_json()) == plan


@pytest.mark.parametrize("asked", [OTHER_CLASS, "", "a b", "../x", "x" * 201, "\x1b[2J"])
def test_another_class_than_the_measured_one_is_refused(asked):
    with pytest.raises(UsageError) as caught:
        make_plan(measured_for(CLASS), 1_000, now=NOW, class_key=asked)
    assert "class" in caught.value.message
    assert caught.value.hint
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("value", ["any", "", None, 7, "../x", "a b", "x" * 201])
def test_a_forged_class_is_refused(value):
    document = with_own_id({**plan_for(class_key=CLASS).to_json(), "class": value})
    with pytest.raises(UsageError, match="class"):
        parsed(document)


def test_the_class_of_a_plan_cannot_be_left_out_or_added():
    of_class = plan_for(class_key=CLASS).to_json()
    for document in (
        {**of_class, "version": 1},
        {**DOCUMENT, "version": 2},
        with_own_id({**DOCUMENT, "class": CLASS}),
        with_own_id({name: v for name, v in of_class.items() if name != "class"}),
        {**of_class, "version": True},
        {**DOCUMENT, "version": True},
    ):
        with pytest.raises(UsageError):
            parsed(document)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(DOCUMENT)), _JSON)
def test_any_value_of_any_field_is_an_answer(key, value):
    document = with_own_id({**DOCUMENT, key: value})
    try:
        plan = parsed(document)
    except UsageError:
        return
    assert plan.to_json() == parsed(plan.to_json()).to_json()
