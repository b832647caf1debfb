# SPDX-License-Identifier: Apache-2.0
"""What is due in a shared study, from the claims so far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sysctl.fleet.claims import (
    Claim,
    ClaimKind,
    ClaimState,
    Finished,
    Record,
    Wait,
    finalists,
    next_claim,
)
from sysctl.fleet.claims import search_runs as runs_of_search
from sysctl.fleet.records import claim_from_json, claim_to_json
from sysctl.knobs.setting import Setting
from tests.unit.sysctl.fleet.studies import SPEC, finished, in_state, run, told


def claimed(records, node, spec=SPEC) -> Claim:
    """Return the claim that is due for the node."""
    due = next_claim(spec, records, node)
    assert isinstance(due, Claim)
    return due


def claims_at_once(count, spec=SPEC):
    """Return what that many nodes claim before any of them has a result."""
    records: list[Record] = []
    found: list = []
    for at in range(count):
        due = next_claim(spec, records, f"n{at}")
        found.append(due)
        if isinstance(due, Claim):
            records.append(in_state(due, ClaimState.RUNNING))
    return found, records


def test_nodes_that_claim_at_once_get_different_candidates():
    found, _ = claims_at_once(len(SPEC.candidates))
    assert {claim.settings[0] for claim in found} == set(SPEC.candidates)
    assert all(claim.kind is ClaimKind.SEARCH for claim in found)


def test_a_node_waits_while_others_have_all_candidates():
    found, _ = claims_at_once(len(SPEC.candidates) + 1)
    assert isinstance(found[-1], Wait)


def test_a_lost_claim_is_due_again_with_the_next_attempt():
    found, _ = claims_at_once(1)
    again = claimed([in_state(found[0], ClaimState.LOST)], "n0")
    assert again.settings == found[0].settings
    assert again.attempt == 2
    assert again.key != found[0].key


def test_a_setting_whose_claims_are_lost_too_often_is_given_up():
    first = SPEC.candidates[0]
    lost = [
        in_state(Claim(ClaimKind.SEARCH, (first,), f"n{at}"), ClaimState.LOST)
        for at in range(SPEC.most_lost)
    ]
    assert claimed(lost, "n9").settings != (first,)
    assert claimed(lost[:-1], "n9").settings == (first,)


def test_each_node_takes_all_its_blocks_and_no_more_nodes_than_asked_for():
    records = finished(nodes=9)
    blocks = [record.claim for record in records if record.claim.kind is ClaimKind.BLOCK]
    by_node = {name: [c.replicate for c in blocks if c.node == name] for name in
               {c.node for c in blocks}}  # fmt: skip
    assert len(by_node) == SPEC.nodes
    assert all(numbers == [0, 1] for numbers in by_node.values())
    assert len({claim.key for claim in blocks}) == len(blocks)


def test_the_node_that_was_lost_in_its_block_is_replaced():
    records = finished(nodes=5)
    last = records[-1].claim
    kept = [r for r in records if r.claim.node != last.node or r.claim.kind is ClaimKind.SEARCH]
    lost = [*kept, in_state(last, ClaimState.LOST)]
    assert isinstance(next_claim(SPEC, [*kept, in_state(last, ClaimState.RUNNING)], "n9"), Finished)
    assert isinstance(next_claim(SPEC, lost, "n9"), Claim)


def test_a_node_that_refused_its_block_takes_nobodys_place():
    records = finished(nodes=4)
    refused = Claim(ClaimKind.BLOCK, finalists(SPEC, records), "small")
    runs = (run(1, 0, problem="refused: more than the limit"),)
    due = next_claim(SPEC, [*records, Record(refused, ClaimState.TOLD, runs)], "n9")
    assert isinstance(due, Claim)


def test_a_forged_attempt_does_not_make_the_next_one_unreadable():
    first = claimed([], "n0")
    forged = in_state(replace(first, attempt=10**6), ClaimState.LOST)
    assert claim_from_json(claim_to_json(claimed([forged], "n0"))) == first


def test_a_study_whose_nodes_do_not_come_back_ends():
    records = finished(nodes=5)
    compared = finalists(SPEC, records)
    search = [record for record in records if record.claim.kind is ClaimKind.SEARCH]
    gone = [
        in_state(Claim(ClaimKind.BLOCK, compared, f"x{at}"), ClaimState.LOST)
        for at in range(SPEC.most_lost)
    ]
    due = next_claim(SPEC, [*search, *gone], "n9")
    assert isinstance(due, Finished)
    assert "did not come back" in due.why


def test_the_search_compares_shares_of_each_nodes_own_time():
    slow, fast = SPEC.candidates[0], SPEC.candidates[-1]
    records = [
        told(Claim(ClaimKind.SEARCH, (slow,), "a"), speed_s=10.0),
        told(Claim(ClaimKind.SEARCH, (fast,), "b"), speed_s=40.0),
    ]
    times = runs_of_search(SPEC, records).candidates_s
    # measured 9.8 s and 16 s; on one node that takes 25 s they would be 24.5 s and 10 s
    assert times[slow] == pytest.approx(24.5)
    assert times[fast] == pytest.approx(10.0)


def test_the_finalists_are_those_of_the_first_block_and_only_candidates():
    records = finished()
    first = finalists(SPEC, records)
    assert set(first) <= set(SPEC.candidates)
    forged = Claim(ClaimKind.BLOCK, (Setting((("vm.dirty_ratio", 90),)),), "evil")
    assert finalists(SPEC, [in_state(forged, ClaimState.RUNNING), *records]) == first


def test_two_candidates_need_no_search():
    spec = replace(SPEC, values={"vm.dirty_ratio": (40, 60), "vm.dirty_background_ratio": (5,)})
    due = claimed([], "n0", spec)
    assert due.kind is ClaimKind.BLOCK
    assert len(due.settings) == 2


def test_no_candidate_that_is_faster_ends_the_study():
    spec = replace(SPEC, values={"vm.dirty_ratio": (20,), "vm.dirty_background_ratio": (3, 5, 7)})
    records = finished(spec)
    assert {record.claim.kind for record in records} == {ClaimKind.SEARCH}
    assert isinstance(next_claim(spec, records, "n0"), Finished)
