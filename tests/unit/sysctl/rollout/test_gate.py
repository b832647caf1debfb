# SPDX-License-Identifier: Apache-2.0
"""The decisions, each from records as nodes would write them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from sysctl.rollout.arms import CONTROL, TREATED
from sysctl.rollout.gate import GO_ON, REVERT, STOP, WAIT, nodes_for
from sysctl.rollout.plan import ALPHA
from tests.unit.rollouts import CLASS, HOUR, OTHER_CLASS, gate, plan_for, report, reports

PLAN = plan_for()
MANY = 10_000
#: With 1 % treated: about 100 nodes.
STAGE = 2


def test_a_faster_fleet_goes_on():
    found = gate(PLAN, reports(PLAN, MANY, STAGE, slower=0.8), STAGE)
    assert (found.decision, found.because) == (GO_ON, ("promotion",))
    assert found.times[0].high < 1
    assert found.promotion.score > found.promotion.boundary


def test_a_slower_fleet_is_reverted():
    found = gate(PLAN, reports(PLAN, MANY, STAGE, slower=1.3), STAGE)
    assert found.decision == REVERT
    assert "return_time" in found.because
    assert found.times[0].low > 1


def test_without_votes_it_waits():
    assert gate(PLAN, []).decision == WAIT
    few = reports(PLAN, 300, STAGE)
    assert gate(PLAN, few, STAGE).because == ("votes",)


def test_the_last_look_without_proof_stops():
    plan = plan_for(2_000)
    found = gate(plan, reports(plan, 2_000, 1, slower=1.1, seed=6), 1)
    assert (found.decision, found.because) == (STOP, ("last_look",))


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        ({"failed_pulls": 1}, "failed_pulls"),
        ({"oom_kills": 1}, "oom_kills"),
        ({"memory_psi_full_s": 30.0}, "memory_pressure"),
        ({"peak_at_risk_bytes": 2**40}, "peak_at_risk"),
        ({"durable_s": 300.0}, "durable_time"),
    ],
)
def test_each_guardrail_reverts_a_change_that_is_faster(harm, name):
    found = gate(PLAN, reports(PLAN, MANY, STAGE, slower=0.5, **harm), STAGE)
    assert (found.decision, found.because) == (REVERT, (name,))


def test_a_fleet_that_is_durable_a_little_later_than_the_measured_host_is_no_harm():
    """The limit is what one host showed; 3 % is less than a host differs from the others."""
    plan, draw = plan_for(100_000), random.Random(1)
    listed = [
        replace(
            each, durable_s=90 * math.exp(draw.gauss(0, 0.2)) * (1.03 if each.arm == TREATED else 1)
        )
        for each in reports(plan, 40_000, 4, slower=0.8)
    ]
    assert gate(plan, listed, 4).decision == GO_ON


def test_treated_nodes_that_stop_to_report_are_harm():
    listed = reports(PLAN, MANY, STAGE, slower=0.5)
    later = PLAN.silent_after_s + 2 * HOUR
    still = [
        replace(each, start_s=PLAN.created_s + later)
        for each in listed
        if each.arm == CONTROL or int(each.node[0], 16) % 4
    ]
    found = gate(PLAN, [*listed, *still], STAGE, later_s=later)
    assert (found.decision, found.because) == (REVERT, ("silent",))
    assert found.events[-1].control.count == 0


def before(listed):
    """Return what the same nodes reported before the roll-out."""
    start_s = PLAN.created_s - HOUR
    return [replace(each, start_s=start_s, rollout=None, stage=None, arm=None) for each in listed]


def test_a_stage_in_which_treated_nodes_are_missing_does_not_go_on():
    """Three of ten died at once; until they count as silent, only the others vote."""
    listed = reports(PLAN, MANY, STAGE, slower=0.8)
    alive = [each for each in listed if each.arm == CONTROL or int(each.node[:4], 16) % 10 > 2]
    found = gate(PLAN, [*before(listed), *alive], STAGE)
    assert (found.decision, found.because) == (WAIT, ("missing",))


def test_nodes_of_both_arms_that_have_not_reported_yet_hold_nothing_up():
    listed = reports(PLAN, MANY, STAGE, slower=0.8)
    early = [each for each in listed if int(each.node[:4], 16) % 10 > 2]
    assert gate(PLAN, [*before(listed), *early], STAGE).decision == GO_ON


def test_nodes_that_stop_to_report_in_both_arms_are_no_harm():
    listed = reports(PLAN, MANY, STAGE, slower=0.8)
    later = PLAN.silent_after_s + 2 * HOUR
    still = [
        replace(each, start_s=PLAN.created_s + later)
        for each in listed
        if int(each.node[0], 16) % 4
    ]
    found = gate(PLAN, [*listed, *still], STAGE, later_s=later)
    assert found.decision == GO_ON
    assert min(found.events[-1].treated.count, found.events[-1].control.count) > 10


@pytest.mark.parametrize("answer", ["changed", "not applied"])
def test_settings_that_are_not_in_force_stop(answer):
    found = gate(PLAN, reports(PLAN, MANY, STAGE, slower=0.8, verify=answer), STAGE)
    assert (found.decision, found.because) == (STOP, ("not_in_force",))


def test_without_an_answer_of_verify_it_waits():
    found = gate(PLAN, reports(PLAN, MANY, STAGE, slower=0.8, verify=None), STAGE)
    assert (found.decision, found.because) == (WAIT, ("not_verified",))


def test_an_engine_that_treats_the_wrong_nodes_stops():
    listed = [
        replace(each, rollout=PLAN.id, stage=STAGE, arm=TREATED)
        for each in reports(PLAN, 2_000, STAGE)
    ]
    assert gate(PLAN, listed, STAGE).because == ("contradicting",)


def test_control_nodes_with_the_settings_stop():
    listed = [
        replace(each, verify="in force") if each.arm == CONTROL else each
        for each in reports(PLAN, MANY, STAGE, slower=0.8)
    ]
    assert gate(PLAN, listed, STAGE).because == ("contradicting",)


def test_one_forged_node_neither_hides_harm_nor_makes_it():
    for slower, expected in ((1.3, REVERT), (0.8, GO_ON)):
        listed = reports(PLAN, MANY, STAGE, slower=slower)
        forged = [
            replace(each, return_s=1e15 if at == 0 else 1e-9)
            for arm in (TREATED, CONTROL)
            for at, each in enumerate([each for each in listed if each.arm == arm][:2])
        ]
        honest = [each for each in listed if each.node not in {bad.node for bad in forged}]
        assert gate(PLAN, [*forged, *honest], STAGE).decision == expected


def test_many_records_of_one_node_are_one_vote():
    listed = reports(PLAN, MANY, STAGE, slower=0.8)
    loud = next(each for each in listed if each.arm == TREATED)
    shouted = [
        report(loud.node, PLAN, STAGE, start_s=PLAN.created_s + at, return_s=6000.0, oom_kills=9)
        for at in range(2_000)
    ]
    found = gate(PLAN, [*listed, *shouted], STAGE)
    assert found.decision == GO_ON
    assert found.events[1].treated.count == 1


def test_a_look_has_the_same_nodes_whenever_it_is_made():
    plan = plan_for(100_000)
    listed = sorted(reports(plan, 100_000, 2), key=lambda each: each.start_s)
    cut = len(listed) * 9 // 10
    first, second = (gate(plan, part, 2).promotion for part in (listed[:cut], listed))
    assert first.look == second.look == 3
    assert first.score == pytest.approx(second.score, abs=1.0)


@pytest.mark.parametrize("nodes", [30, 100, 1_000])
def test_a_stage_of_few_nodes_promotes_a_rise_by_its_margin_in_5_percent_at_most(nodes):
    """The variance is estimated from as few as two votes."""
    plan, fleets, promoted = plan_for(nodes), 400, 0
    slower = 1 + plan.stages[0].margin
    for seed in range(fleets):
        listed = sorted(
            reports(plan, nodes, slower=slower, seed=seed), key=lambda each: each.start_s
        )
        found = (gate(plan, listed[: len(listed) * part // 9]).promotion for part in range(1, 10))
        promoted += any(each.is_excluded for each in found)
    assert promoted <= fleets * ALPHA + 3 * math.sqrt(fleets * ALPHA)


def test_nodes_for_a_look():
    assert nodes_for(100, 50) is None
    assert nodes_for(100, 200) == 200
    assert nodes_for(0.1, 200) == 2


@pytest.mark.parametrize(("slower", "expected"), [(0.8, GO_ON), (1.3, REVERT)])
def test_another_class_neither_hides_harm_nor_makes_it(slower, expected):
    plan = plan_for(class_key=CLASS)
    members = reports(plan, MANY, STAGE, slower=slower)
    others = [
        replace(each, class_key=OTHER_CLASS)
        for each in reports(plan, MANY, STAGE, slower=2.1 - slower, seed=2)
    ]
    assert gate(plan, [*members, *others], STAGE).decision == expected
    assert gate(plan, others, STAGE).because == ("votes",)


def test_a_class_that_stops_to_report_while_the_treated_one_goes_on_is_no_harm():
    plan = plan_for(class_key=CLASS)
    listed = reports(plan, MANY, STAGE, slower=0.8)
    later = plan.silent_after_s + 2 * HOUR
    still = [replace(each, start_s=plan.created_s + later) for each in listed]
    others = [
        replace(each, class_key=OTHER_CLASS)
        for each in reports(plan, MANY, STAGE, seed=2)
        if each.arm == TREATED
    ]
    found = gate(plan, [*listed, *still, *others], STAGE, later_s=later)
    assert found.decision == GO_ON
    assert found.events[-1].treated.count == 0
