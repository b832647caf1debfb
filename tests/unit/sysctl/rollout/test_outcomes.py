# SPDX-License-Identifier: Apache-2.0
"""One vote a node, and what hostile or broken records can do to it: be counted and named."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from sysctl.rollout.arms import CONTROL, TREATED, WAITING
from tests.unit.rollouts import (
    CLASS,
    HOUR,
    OTHER_CLASS,
    node_in,
    node_names,
    outcomes_of,
    plan_for,
    report,
)

PLAN = plan_for()
CANARY = node_in(TREATED, PLAN)
KEPT = node_in(CONTROL, PLAN)
IDLE = node_in(WAITING, PLAN)


def only(listed, **rest):
    [outcome] = outcomes_of(PLAN, listed, **rest).outcomes
    return outcome


def problems(listed, **rest):
    return outcomes_of(PLAN, listed, **rest).problems


def test_a_node_with_many_records_has_one_vote():
    start = PLAN.created_s
    listed = [
        report(CANARY, PLAN, start_s=start + at, return_s=60.0 + at, pulls=2) for at in range(50)
    ]
    outcome = only(listed)
    assert (outcome.pulls, outcome.return_s) == (100, pytest.approx(84.5))
    assert outcome.start_s == start


def test_times_are_weighted_by_pulls():
    start = PLAN.created_s
    listed = [
        report(CANARY, PLAN, start_s=start, return_s=10.0, pulls=9),
        report(CANARY, PLAN, start_s=start + 1, return_s=20.0, pulls=1),
    ]
    assert only(listed).return_s == pytest.approx(11)


def test_a_record_that_comes_twice_counts_once():
    one = report(CANARY, PLAN, oom_kills=1)
    found = outcomes_of(PLAN, [one, one, replace(one, oom_kills=5)])
    assert found.outcomes[0].oom_kills == 1
    assert found.problems.counts == {"duplicate": 2}


def test_the_order_of_the_records_does_not_matter():
    start = PLAN.created_s
    listed = [
        report(node, PLAN, start_s=start + at, return_s=60.0 + at)
        for node in node_names(200)
        for at in range(3)
    ]
    expected = outcomes_of(PLAN, listed)
    random.Random(1).shuffle(listed)
    assert outcomes_of(PLAN, listed) == expected


def test_a_node_in_two_arms_does_not_vote_and_is_named():
    listed = [
        report(CANARY, PLAN, arm=TREATED),
        report(CANARY, PLAN, arm=CONTROL, start_s=PLAN.created_s + 5),
        report(KEPT, PLAN),
    ]
    found = outcomes_of(PLAN, listed)
    assert [each.node for each in found.outcomes] == [KEPT]
    assert found.contradicting == 1
    assert found.problems.named == {"two_arms": [CANARY]}


@pytest.mark.parametrize(("node", "arm"), [(CANARY, CONTROL), (KEPT, TREATED), (IDLE, TREATED)])
def test_the_arm_is_that_of_the_plan_not_of_the_record(node, arm):
    found = outcomes_of(PLAN, [report(node, PLAN, rollout=PLAN.id, stage=1, arm=arm)])
    assert found.outcomes == ()
    assert found.problems.named == {"wrong_arm": [node]}


def test_a_node_ahead_of_its_stage_does_not_vote():
    found = problems([report(CANARY, PLAN, stage=2)])
    assert found.counts == {"later_stage": 1}


def test_records_of_other_roll_outs_and_stages_are_no_votes():
    other = [
        report(CANARY, PLAN, 2, rollout="another"),
        report(CANARY, PLAN, 2, stage=1, start_s=PLAN.created_s),
    ]
    assert outcomes_of(PLAN, other, stage=2).outcomes == ()


@pytest.mark.parametrize("node", [CANARY, KEPT])
def test_a_node_that_stops_to_report_is_an_outcome_in_both_arms(node):
    before = report(node, PLAN, start_s=PLAN.created_s - HOUR, rollout=None, stage=None, arm=None)
    later = PLAN.silent_after_s + HOUR
    assert only([before], later_s=later).reported is False
    assert only([before, report(node, PLAN)], later_s=later + 2 * HOUR).reported is False
    recent = report(node, PLAN, start_s=PLAN.created_s + later)
    assert only([before, recent], later_s=later).reported is True


def test_a_node_that_was_gone_before_is_none():
    gone = PLAN.created_s - PLAN.silent_after_s - 1
    listed = [report(CANARY, PLAN, start_s=gone, rollout=None, stage=None, arm=None)]
    assert outcomes_of(PLAN, listed, later_s=10 * 86_400).outcomes == ()


@pytest.mark.parametrize(
    ("start_s", "kind"),
    [
        (PLAN.created_s + 30 * HOUR, "clock_ahead"),
        (math.inf, "clock_ahead"),
        (math.nan, "clock_ahead"),
        (PLAN.created_s - 2 * HOUR, "before_the_plan"),
        (0.0, "before_the_plan"),
        (-math.inf, "before_the_plan"),
    ],
)
def test_a_clock_that_is_off_is_named(start_s, kind):
    found = outcomes_of(PLAN, [report(CANARY, PLAN, start_s=start_s), report(KEPT, PLAN)])
    assert [each.node for each in found.outcomes] == [KEPT]
    assert found.problems.named == {kind: [CANARY]}


def test_one_clock_ahead_makes_nobody_silent():
    listed = [report(node, PLAN) for node in (CANARY, KEPT)]
    ahead = report(IDLE, PLAN, start_s=PLAN.created_s + 10**7)
    assert all(each.reported for each in outcomes_of(PLAN, [*listed, ahead]).outcomes)


@pytest.mark.parametrize("name", ["", "../x", "a b", "\x1b[2J", "x" * 200, "{{ x }}"])
def test_a_name_that_is_none_is_not_printed(name):
    found = problems([report(name, PLAN)])
    assert found.named == {"bad_name": ["?"]}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_impossible_times_are_no_votes(value):
    outcome = only([report(CANARY, PLAN, return_s=value, memory_psi_full_s=-1.0)])
    assert outcome.return_s is None
    assert outcome.memory_psi_full_s is None


def test_the_worst_answer_of_verify_counts():
    start = PLAN.created_s
    said = ["in force", None, "changed"]
    listed = [report(CANARY, PLAN, start_s=start + i, verify=v) for i, v in enumerate(said)]
    assert only(listed).verify == "changed"


def test_only_some_of_many_names_are_kept():
    listed = [report(node, PLAN, rollout=PLAN.id, stage=9, arm=TREATED) for node in node_names(500)]
    found = problems(listed)
    assert found.counts == {"later_stage": 500}
    assert len(found.named["later_stage"]) == 10


#: The same nodes have other arms: the id is another.
OF_CLASS = plan_for(class_key=CLASS)
MEMBER = node_in(TREATED, OF_CLASS)
OF_OTHERS: dict[str, Any] = {"class_key": OTHER_CLASS}


def test_records_of_other_classes_do_not_vote():
    start = OF_CLASS.created_s
    listed = [
        report(MEMBER, OF_CLASS, start_s=start, return_s=60.0),
        report(MEMBER, OF_CLASS, start_s=start + 1, return_s=6000.0, oom_kills=1, **OF_OTHERS),
        *(report(node, OF_CLASS, rollout=None, **OF_OTHERS) for node in node_names(50)),
    ]
    found = outcomes_of(OF_CLASS, listed)
    [outcome] = found.outcomes
    assert (outcome.node, outcome.return_s, outcome.oom_kills) == (MEMBER, 60.0, 0)
    assert found.problems.counts == {}


def test_a_plan_for_all_classes_counts_all():
    listed = [report(CANARY, PLAN, **OF_OTHERS), report(KEPT, PLAN)]
    assert len(outcomes_of(PLAN, listed).outcomes) == 2


@pytest.mark.parametrize("arm", [TREATED, CONTROL])
def test_nodes_of_other_classes_are_not_silent(arm):
    node = node_in(arm, OF_CLASS)
    listed = [report(node, OF_CLASS, **OF_OTHERS)]
    assert outcomes_of(OF_CLASS, listed, later_s=OF_CLASS.silent_after_s + HOUR).outcomes == ()


@pytest.mark.parametrize("voted", [True, False])
def test_a_node_that_left_the_class_is_not_silent(voted):
    """Its kernel was upgraded: it reports under another class."""
    later = OF_CLASS.silent_after_s + HOUR
    last = report(MEMBER, OF_CLASS) if voted else unstaged(MEMBER)
    moved = report(MEMBER, OF_CLASS, start_s=OF_CLASS.created_s + later, **OF_OTHERS)
    outcomes = outcomes_of(OF_CLASS, [last, moved], later_s=later).outcomes
    assert [each.reported for each in outcomes] == ([True] if voted else [])
    gone = outcomes_of(OF_CLASS, [last], later_s=later + HOUR).outcomes
    assert [each.reported for each in gone] == [False]


def unstaged(node):
    before: dict[str, Any] = {
        "start_s": OF_CLASS.created_s - HOUR,
        "rollout": None,
        "stage": None,
        "arm": None,
    }
    return report(node, OF_CLASS, **before)


def test_a_node_that_left_the_class_before_the_roll_out_is_none():
    before = OF_CLASS.created_s - OF_CLASS.silent_after_s - 1
    listed = [
        report(MEMBER, OF_CLASS, start_s=before, rollout=None, stage=None, arm=None),
        report(MEMBER, OF_CLASS, start_s=OF_CLASS.created_s, rollout=None, **OF_OTHERS),
    ]
    assert outcomes_of(OF_CLASS, listed, later_s=10 * 86_400).outcomes == ()


def test_nodes_of_other_classes_that_were_treated_are_named():
    """The engine got the wrong hosts: they have settings that were measured for others."""
    stray = node_in(CONTROL, OF_CLASS)
    wrong_arm = report(stray, OF_CLASS, arm=TREATED, **OF_OTHERS)
    found = outcomes_of(OF_CLASS, [wrong_arm, report(MEMBER, OF_CLASS)])
    assert found.problems.named == {"other_class": [stray]}
    assert found.contradicting == 0


def test_a_kind_within_a_class_is_judged_by_records_of_the_class():
    """Only who runs the study knows the kind of a node; its records have the class."""
    plan = plan_for(class_key=f"{CLASS}.old-disks")
    member = node_in(TREATED, plan)
    stray = report(node_in(CONTROL, plan), plan, **OF_OTHERS)
    found = outcomes_of(plan, [report(member, plan), stray])
    assert [each.node for each in found.outcomes] == [member]
