# SPDX-License-Identifier: Apache-2.0
"""A claim is measured by the sweep's protocol, and the node is restored after it."""

from __future__ import annotations

import pytest

from contracts.shared.errors import WritewiseError
from profiler.shared_study.document import SharedResult, result_from_text, result_to_json
from profiler.shared_study.measuring import NodeMeasure
from sysctl.evidence.protocol import ATTEMPTS
from sysctl.evidence.results import PRESENT, PRICE, RECHECK, Results
from sysctl.fleet.claims import Claim, ClaimKind
from sysctl.fleet.summary import ratios_of
from tests.unit.sweeps import CIRCUMSTANCES, MadeUpBench, failing
from tests.unit.sweeps import PRESENT as PRESENT_SETTING
from tests.unit.sysctl.fleet.studies import SPEC

FAST = next(each for each in SPEC.candidates if each.values["vm.dirty_ratio"] == 60)
SLOW = next(each for each in SPEC.candidates if each.values["vm.dirty_ratio"] == 40)


def measure_with(bench):
    restored = []
    made = NodeMeasure(
        Results(CIRCUMSTANCES, {}),
        PRESENT_SETTING,
        bench,
        restore=lambda: restored.append(len(bench.applied)),
        clock_s=lambda: bench.now_s,
    )
    return made, restored


def test_a_candidate_is_compared_with_this_nodes_own_settings():
    bench = MadeUpBench()
    measure, restored = measure_with(bench)
    trials = measure(Claim(ClaimKind.SEARCH, (FAST,), "n0"))
    assert bench.applied == [PRESENT_SETTING, PRESENT_SETTING, FAST]
    assert [trial.role for trial in measure.results.trials][:2] == [PRICE, PRESENT]
    runs = SharedResult("s", Claim(ClaimKind.SEARCH, (FAST,), "n0"), trials).runs(PRESENT_SETTING)
    assert [run.at for run in runs] == [0, 1]
    assert restored == [3]


def test_a_second_claim_does_not_measure_the_current_settings_again():
    bench = MadeUpBench()
    measure, restored = measure_with(bench)
    measure(Claim(ClaimKind.SEARCH, (FAST,), "n0"))
    trials = measure(Claim(ClaimKind.SEARCH, (SLOW,), "n0"))
    assert bench.applied[3:] == [SLOW]
    assert trials[0].role == PRESENT
    assert restored == [3, 4]


def test_a_block_has_the_order_abba_and_its_pairs():
    bench = MadeUpBench()
    measure, _ = measure_with(bench)
    claim = Claim(ClaimKind.BLOCK, (FAST, SLOW), "n0")
    trials = measure(claim)
    order = bench.applied[2:]
    assert sorted(map(str, order[:3])) == sorted(map(str, [PRESENT_SETTING, FAST, SLOW]))
    assert order[3:] == order[2::-1]
    assert {trial.role for trial in trials} == {PRESENT, RECHECK}
    runs = SharedResult("s", claim, trials).runs(PRESENT_SETTING)
    assert len(ratios_of(runs, 1)) == len(ratios_of(runs, 2)) == 2
    assert ratios_of(runs, 1)[0] < ratios_of(runs, 2)[0] < 1


def test_the_result_is_read_back_from_its_document():
    import json

    measure, _ = measure_with(MadeUpBench())
    claim = Claim(ClaimKind.BLOCK, (FAST,), "n0")
    result = SharedResult(SPEC.name, claim, measure(claim))
    text = json.dumps(result_to_json(SPEC, result, CIRCUMSTANCES.node_class))
    assert result_from_text(text, SPEC.name) == result
    assert "node-1" not in text  # the host's name
    for damaged in (text[:-2], "[]", "{}", text.replace(SPEC.name, "another")):
        with pytest.raises(ValueError):
            result_from_text(damaged, SPEC.name)


def test_a_node_that_cannot_measure_its_own_settings_says_so_and_is_restored():
    measure, restored = measure_with(MadeUpBench(lambda setting, run: failing("no volume")))
    with pytest.raises(WritewiseError, match="no volume"):
        measure(Claim(ClaimKind.SEARCH, (FAST,), "n0"))
    assert restored


def test_a_setting_that_fails_is_repeated_and_reported_with_its_problem():
    def seconds(setting, run):
        return failing("refused") if setting == FAST else 20.0

    bench = MadeUpBench(seconds)
    measure, _ = measure_with(bench)
    claim = Claim(ClaimKind.SEARCH, (FAST,), "n0")
    runs = SharedResult("s", claim, measure(claim)).runs(PRESENT_SETTING)
    assert bench.applied.count(FAST) == ATTEMPTS
    assert runs[-1].problem == "refused"
    assert runs[-1].return_s is None
