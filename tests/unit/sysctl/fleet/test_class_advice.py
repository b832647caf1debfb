# SPDX-License-Identifier: Apache-2.0
"""The advice for a class: what holds on a node that was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sysctl.fleet.class_advice import Objections, advise_class
from tests.unit.sysctl.fleet.studies import GIB, SPEC, as_late, finished, scattered


def test_a_gain_on_every_node_is_recommended():
    advice = advise_class(SPEC, finished(factor=scattered))
    assert advice.is_complete
    assert advice.best is not None
    assert advice.best.setting.values["vm.dirty_ratio"] == 60
    assert advice.best.found.predicted.high < 1
    assert advice.best.nodes == SPEC.nodes


def test_the_speed_of_a_node_does_not_matter():
    records = finished(factor=scattered, speed_s=lambda node: 10.0 + 5 * int(node[1:]))
    usual = advise_class(SPEC, finished(factor=scattered))
    assert advise_class(SPEC, records).best.found.mean.estimate == pytest.approx(
        usual.best.found.mean.estimate
    )


def test_a_class_with_two_kinds_of_nodes_gets_no_recommendation():
    advice = advise_class(SPEC, finished(factor=lambda node: 1.0 if node < "n3" else 2.6))
    assert advice.best is None
    assert Objections.NODES_DIFFER in {each.objection for each in advice.settings} or (
        Objections.NO_GAIN in {each.objection for each in advice.settings}
    )
    assert max(each.found.i_squared for each in advice.settings) > 0.9


def test_a_class_that_is_too_small_says_what_would_be_enough():
    spec = replace(SPEC, nodes=3)
    advice = advise_class(spec, finished(spec, nodes=3, factor=scattered))
    assert advice.best is None
    assert {each.objection for each in advice.settings} == {Objections.TOO_FEW_NODES}
    assert all(each.enough_nodes >= 5 for each in advice.settings)


def test_more_at_risk_than_the_limit_is_not_recommended():
    records = finished(factor=scattered)
    assert advise_class(SPEC, records, max_at_risk_bytes=GIB).best is not None
    limited = advise_class(SPEC, records, max_at_risk_bytes=GIB - 1)
    assert limited.best is None
    assert Objections.AT_RISK in {each.objection for each in limited.settings}


def test_a_gain_without_waits_has_another_cause():
    records = [
        replace(record, runs=tuple(replace(run, stall_share=0.0) for run in record.runs))
        for record in finished(factor=scattered)
    ]
    advice = advise_class(SPEC, records)
    assert {each.objection for each in advice.settings} == {Objections.NOT_THROTTLED}


def test_a_late_result_that_is_there_twice_counts_once():
    records = finished(factor=scattered)
    twice = [*records, *map(as_late, records)]
    assert advise_class(SPEC, twice) == advise_class(SPEC, records)


def test_nothing_measured_is_no_advice():
    advice = advise_class(SPEC, [])
    assert advice.settings == ()
    assert advice.best is None
