# SPDX-License-Identifier: Apache-2.0
"""The advice for a class: what holds on a node that was not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sysctl.fleet.class_advice import Objections, advise_class
from sysctl.fleet.kinds import NodeKind
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
    advice = advise_class(SPEC, finished(factor=two_kinds))
    assert advice.best is None
    for each in advice.settings:
        assert each.objection is Objections.MIXED
        assert each.enough_nodes is None, "more nodes do not help"
        assert each.found.i_squared > 0.9
        kinds = {verdict.node: verdict.kind for verdict in each.verdicts}
        assert kinds == {
            **dict.fromkeys(["n0", "n1", "n2"], NodeKind.GAINS),
            **dict.fromkeys(["n3", "n4"], NodeKind.NO_GAIN),
        }


def two_kinds(node):
    return 1.0 if node < "n3" else 2.6


TWELVE = replace(SPEC, nodes=12)


def of_twelve(*slower):
    """Return the setting with the ratio 60 after a study in which these nodes have no gain."""
    records = finished(TWELVE, nodes=12, factor=lambda node: 2.6 if node in slower else 1.0)
    settings = advise_class(TWELVE, records).settings
    each = next(x for x in settings if x.setting.values["vm.dirty_ratio"] == 60)
    assert {v.node for v in each.verdicts if v.kind is NodeKind.NO_GAIN} == set(slower)
    return each


def test_a_mixed_class_is_split_even_if_its_mean_gains():
    each = of_twelve("n0", "n1", "n2")
    assert each.found.mean.high < 1 < each.found.predicted.high
    assert each.objection is Objections.MIXED


def test_a_single_node_without_a_gain_is_named_and_the_class_not_split():
    each = of_twelve("n5")
    assert each.found.predicted.high < 1
    assert each.objection is None


def test_few_nodes_of_two_kinds_are_too_few_and_named():
    spec = replace(SPEC, nodes=4)
    advice = advise_class(spec, finished(spec, nodes=4, factor=two_kinds))
    assert {each.objection for each in advice.settings} == {Objections.TOO_FEW_NODES}
    assert all(each.is_mixed for each in advice.settings)


def test_a_search_without_a_gain_is_an_answer():
    records = finished(factor=lambda node: 2.6)
    advice = advise_class(SPEC, records)
    assert advice.is_without_finalist and advice.is_complete
    assert advice.settings == () and advice.best is None
    begun = advise_class(SPEC, records[:-1])
    assert not begun.is_without_finalist and not begun.is_complete


def test_the_nodes_are_shown_as_they_are_under_the_current_settings():
    records = finished(factor=scattered, speed_s=lambda node: 10.0 + 5 * int(node[1:]))
    before = advise_class(SPEC, records).before
    assert {node: each.return_s for node, each in before.items()} == {
        f"n{at}": 10.0 + 5 * at for at in range(5)
    }
    assert {each.stall_share for each in before.values()} == {0.5}


def test_a_class_that_is_too_small_says_what_would_be_enough():
    spec = replace(SPEC, nodes=3)
    advice = advise_class(spec, finished(spec, nodes=3, factor=scattered))
    assert advice.best is None
    assert {each.objection for each in advice.settings} == {Objections.TOO_FEW_NODES}
    assert all(each.enough_nodes >= 5 for each in advice.settings)


def test_a_class_that_is_too_small_and_differs_has_no_number_that_would_be_enough():
    spec = replace(SPEC, nodes=3)
    records = finished(spec, nodes=3, factor=lambda node: 2.6 if node == "n0" else 1.0)
    slowest = advise_class(spec, records).settings[-1]
    assert slowest.objection is Objections.TOO_FEW_NODES
    assert slowest.found.enough_nodes() is None
    assert slowest.enough_nodes is None


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
