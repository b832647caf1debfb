# SPDX-License-Identifier: Apache-2.0
"""Studies and claims are read back as written; anything else is refused with every error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysctl.fleet.claims import Claim, ClaimKind, ClaimState
from sysctl.fleet.records import claim_from_json, claim_to_json, record_of, runs_to_json
from sysctl.fleet.spec import spec_from_json, spec_problems
from tests.unit.sysctl.fleet.studies import SPEC, finished, told

CLAIM = Claim(ClaimKind.BLOCK, SPEC.candidates[:2], "0a1b2c", 1, 3)


def again(data):
    return json.loads(json.dumps(data))


def test_a_study_and_claims_are_read_back_as_written():
    assert spec_from_json(again(SPEC.to_json())) == SPEC
    assert claim_from_json(again(claim_to_json(CLAIM))) == CLAIM
    record = told(CLAIM)
    back = record_of(again(claim_to_json(CLAIM)), ClaimState.TOLD, again(runs_to_json(record.runs)))
    assert back.claim == CLAIM
    assert [each.at for each in back.runs] == [each.at for each in record.runs]
    assert back.runs[1].return_s == pytest.approx(record.runs[1].return_s)


def test_what_the_ledger_keeps_of_a_claim_is_small():
    largest = max(finished(), key=lambda record: len(record.runs))
    text = json.dumps(claim_to_json(largest.claim)) + json.dumps(runs_to_json(largest.runs))
    assert len(text) <= 2048


FORGED_STUDIES = {
    "another sysctl": {"values": {"kernel.core_pattern": [1]}},
    "a path": {"values": {"vm.dirty_ratio/../x": [1]}},
    "out of range": {"values": {"vm.dirty_ratio": [101]}},
    "text": {"values": {"vm.dirty_ratio": ["40"]}},
    "no list": {"values": {"vm.dirty_ratio": 40}},
    "too many": {"values": {"vm.dirty_bytes": [8192 * n for n in range(1, 102)]}},
    "both of a pair": {"values": {"vm.dirty_ratio": [40], "vm.dirty_bytes": [2**30]}},
    "a name that is a path": {"name": "../../etc"},
    "a class that is a path": {"class_key": "../x"},
    "a strategy": {"strategy": "os.system"},
    "nodes": {"nodes": 10**9},
    "blocks": {"blocks": True},
    "a field": {"destination": "/etc"},
    "only the current settings": {"values": {"vm.dirty_ratio": [20]}},
    "the version": {"version": 2},
}


@pytest.mark.parametrize("change", FORGED_STUDIES.values(), ids=FORGED_STUDIES)
def test_forged_studies_are_refused(change):
    with pytest.raises(ValueError, match="study"):
        spec_from_json({**again(SPEC.to_json()), **change})


def test_every_error_of_a_study_is_named():
    data = {**SPEC.to_json(), "name": "A b", "nodes": 0, "values": {"vm.x": [1]}}
    assert len(list(spec_problems(data))) == 3


def claim_with(**changes):
    return {**again(claim_to_json(CLAIM)), **changes}


FORGED_CLAIMS = {
    "a sysctl": claim_with(settings=[{"kernel.core_pattern": 1}]),
    "mount options": claim_with(settings=[{"mount_options": "exec"}]),
    "no settings": claim_with(settings=[]),
    "many settings": claim_with(settings=[{"vm.dirty_ratio": n} for n in range(1, 6)]),
    "a node that is a path": claim_with(node="../../x"),
    "a kind": claim_with(kind="shell"),
    "a replicate": claim_with(replicate=-1),
    "a field": claim_with(path="/etc"),
    "nothing": None,
    "a list": [],
}


@pytest.mark.parametrize("data", FORGED_CLAIMS.values(), ids=FORGED_CLAIMS)
def test_forged_claims_are_refused(data):
    with pytest.raises(ValueError):
        claim_from_json(data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_JSON, _JSON)
def test_any_data_is_a_record_or_an_error_that_the_ledger_counts(claim, runs):
    for each in (claim, claim_to_json(CLAIM)):
        try:
            record_of(each, ClaimState.TOLD, runs)
        except (ValueError, TypeError, ArithmeticError):
            continue
