# SPDX-License-Identifier: Apache-2.0
"""Limits on the cost of a setting: a sweep searches, chooses and advises within them."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

import pytest

from contracts.loading import load_contract
from contracts.shared.errors import UsageError
from profiler.cli import advise as advise_command
from profiler.cli import sweep as sweep_command
from profiler.cli.limit_arguments import limits_from
from profiler.report.conclusions import note_texts, verdict_text
from profiler.study import circumstances_here
from sysctl.advice.advise import advise
from sysctl.advice.conclusions import Case
from sysctl.evidence.circumstances import circumstances_of
from sysctl.evidence.price import Limits, limits_of, model_of, price_of
from sysctl.evidence.results import CANDIDATE, RECHECK, Results, load
from sysctl.evidence.runs import Runs
from sysctl.search.finalists import cheapest_and_fastest
from sysctl.sweep.steps import SweepPlan, next_step
from tests.unit.studies import MIB, Study, course, ratio
from tests.unit.sweeps import CIRCUMSTANCES, CONTEXT, GIB, PRESENT, MadeUpBench, sweep

#: Peaks of the simulated bench, by ratio; its times are those of `sweeps.by_ratio`.
PEAKS = {20: 700 * MIB, 40: 900 * MIB, 60: 1300 * MIB, 80: 1700 * MIB}


def context(at_risk=None, durable_s=None):
    return {**CONTEXT, "max_at_risk_bytes": at_risk, "max_durable_s": durable_s}


def swept(at_risk, peaks=PEAKS, **options):
    """Run a sweep of the grid with that limit; the ratio of a setting sets its peak."""

    def changed(setting, run):
        return {"peak_dirty_bytes": peaks[setting.values["vm.dirty_ratio"]] + run * MIB}

    results = Results(circumstances_of(context(at_risk)), {})
    return sweep(results=results, bench=MadeUpBench(changed=changed), **options)


def test_the_finalists_of_a_sweep_are_within_its_limits():
    results = swept(GIB)
    assert {t.setting.values["vm.dirty_ratio"] for t in Runs.of(results).of_role(RECHECK)} == {40}
    recommendation = advise(results)
    assert recommendation.case is Case.CHANGE
    assert recommendation.best.setting.values["vm.dirty_ratio"] == 40
    assert recommendation.price.at_risk_bytes <= GIB
    assert recommendation.analysis.limits == Limits(GIB)
    *_, note = note_texts(recommendation)
    assert note.startswith("Faster, but beyond your limits: dirty_ratio=80 dirty_background_ratio=")
    assert "of the current time in one run: 1.66 GiB at risk, more than 1.00 GiB." in note


def test_without_limits_the_same_sweep_has_another_result():
    assert advise(swept(None)).best.setting.values["vm.dirty_ratio"] == 80


class OneMore:
    """A strategy with one more candidate."""

    def next_setting(self, results, pending=()):
        return ratio(70)

    def remaining(self, results):
        return 1

    def finalists(self, results):
        return ()


def stops_after_s(study):
    """Return how long the next candidate may take."""
    step = next_step(study.results, SweepPlan(PRESENT, OneMore()))
    assert (step.role, step.setting) == (CANDIDATE, ratio(70))
    return step.stop_after_s


def test_settings_beyond_the_limits_do_not_stop_those_within():
    study = Study(context=context(GIB)).price(PRESENT, 20.0, 31.0)
    study.candidate(ratio(80), 4.0, peak_dirty_bytes=2 * GIB)
    assert stops_after_s(study) == pytest.approx(1.5 * 20.0)
    study.candidate(ratio(40), 9.0, peak_dirty_bytes=GIB // 2)
    assert stops_after_s(study) == pytest.approx(1.5 * 9.0)
    study.results.circumstances = CIRCUMSTANCES
    assert stops_after_s(study) == pytest.approx(1.5 * 4.0)


@pytest.mark.parametrize(
    ("at_risk", "found"), [(GIB, (ratio(40), ratio(30))), (GIB * 11 // 10, (ratio(40),))]
)
def test_a_setting_with_room_is_rechecked_next_to_one_at_the_limit(at_risk, found):
    study = Study(context=context(at_risk))
    study.candidate(ratio(30), 9.0, peak_dirty_bytes=GIB * 8 // 10)
    study.candidate(ratio(40), 6.0, peak_dirty_bytes=GIB * 99 // 100)
    study.candidate(ratio(60), 4.0, peak_dirty_bytes=GIB * 12 // 10)
    assert cheapest_and_fastest(study.runs) == found


def test_the_reason_is_that_only_settings_beyond_the_limits_are_faster():
    recommendation = advise(swept(800 * MIB))
    assert recommendation.case is Case.NOT_WITHIN_LIMITS
    assert verdict_text(recommendation).startswith(
        "No change recommended: every faster setting exceeds your limits. Measured: dirty_ratio="
    )
    assert "in one run: 1.66 GiB at risk, more than 800 MiB" in verdict_text(recommendation)
    assert "within these limits" not in verdict_text(recommendation), "that is what was done"


def test_other_limits_than_the_sweeps_advise_another_setting():
    recommendation = advise(swept(None), Limits(800 * MIB))
    assert recommendation.case is Case.NOT_WITHIN_LIMITS
    assert verdict_text(recommendation).endswith(
        "did not search within these limits. Run it again with them."
    )


# --- time to durable ------------------------------------------------------------------------------


def predictable(durable_limit_s=None):
    """Return a study that a model can be fitted to: 1.88 GiB to a 60 MiB/s device take 31 s."""
    trace = course(0.05, 600 * MIB, 60 * MIB, 614 * MIB, 15.0)
    made = Study(durable_s=31.0, trace=trace, context=context(None, durable_limit_s))
    made.present = {"trace": trace}
    return made


def test_an_unobserved_time_to_durable_is_predicted():
    results = predictable().tried(ratio(80), 4.0).results
    assert price_of(Runs.of(results), ratio(80)).durable_s is None
    price = advise(results).price
    assert price.is_durable_predicted
    assert price.durable_s == pytest.approx(31.0, rel=0.03)
    present = advise(results).present_price
    assert (present.durable_s, present.is_durable_predicted) == (31.0, False)


def test_a_measured_time_to_durable_is_not_predicted():
    results = predictable().tried(ratio(80), 4.0, durable_s=33.0).results
    price = price_of(Runs.of(results), ratio(80), model_of(Runs.of(results)))
    assert (price.durable_s, price.is_durable_predicted) == (33.0, False)


@pytest.mark.parametrize(("limit_s", "is_within"), [(40.0, True), (25.0, False)])
def test_the_prediction_decides_which_settings_keep_a_limit(limit_s, is_within):
    results = predictable(limit_s).candidate(ratio(80), 4.0).results
    assert cheapest_and_fastest(Runs.of(results)) == ((ratio(80),) if is_within else ())
    recommendation = advise(predictable(limit_s).tried(ratio(80), 4.0).results)
    assert (recommendation.best is not None) is is_within
    if not is_within:
        assert "s predicted, later than 25.0 s" in verdict_text(recommendation)


def test_a_candidate_is_rechecked_even_if_nothing_can_be_predicted():
    study = Study(context=context(None, 25.0)).candidate(ratio(80), 4.0)
    assert model_of(study.runs) is None
    assert cheapest_and_fastest(study.runs) == (ratio(80),)


def test_a_prediction_does_not_make_one_setting_cheaper_than_another():
    study = predictable().tried(ratio(60), 4.0, durable_s=60.0).tried(ratio(80), 4.0)
    assert advise(study.results).best.setting == ratio(60), "31 s are predicted of the other"


def test_an_observed_time_to_durable_overrides_the_prediction():
    study = predictable(40.0).tried(ratio(80), 4.0)
    assert advise(study.results).best.setting == ratio(80)
    recommendation = advise(study.price(ratio(80), 4.0, durable_s=45.0).results)
    assert recommendation.case is Case.NOT_WITHIN_LIMITS
    assert "durable after 45.0 s, later than 40.0 s" in verdict_text(recommendation)


def test_bytes_at_risk_in_the_price_run_count_too():
    study = Study(context=context(GIB)).tried(ratio(80), 4.0, peak_dirty_bytes=GIB // 2)
    study.price(ratio(80), 4.0, 31.0, peak_dirty_bytes=2 * GIB)
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOT_WITHIN_LIMITS
    assert "2.00 GiB at risk, more than 1.00 GiB" in verdict_text(recommendation)


def test_extras_are_compared_with_the_setting_that_the_limits_allow():
    for at_risk, dirty in ((GIB, 40), (None, 80)):
        tried = Runs.of(swept(at_risk, mount_options=("noatime",))).rechecked
        with_extra = [each for each in tried if each.mount_options == "noatime"]
        assert {each.values["vm.dirty_ratio"] for each in with_extra} == {dirty}


# --- the file and the flags -----------------------------------------------------------------------


def test_limits_come_back_from_the_file(tmp_path):
    results = Study(context=context(GIB, 60.0)).results
    results.save(tmp_path / "r.json")
    assert limits_of(load(tmp_path / "r.json").circumstances) == Limits(GIB, 60.0)
    assert limits_of(Study().results.circumstances) == Limits(), (
        "files of earlier versions have none"
    )


@pytest.mark.parametrize(
    "broken", [{"max_at_risk_bytes": "1GiB"}, {"max_durable_s": -1}, {"max_at_risk_bytes": 1.5}]
)
def test_invalid_limits_are_refused(tmp_path, broken):
    Study().results.save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    document["circumstances"]["class"].update(broken)
    (tmp_path / "r.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="is damaged"):
        load(tmp_path / "r.json")


def parsed(command, *words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(list(words))


def test_both_commands_have_the_flags():
    words = ("--max-at-risk", "1GiB", "--max-durable", "60s")
    for arguments in (
        parsed(sweep_command, "s3://b/p", "/data", *words),
        parsed(advise_command, "r.json", *words),
    ):
        assert limits_from(arguments) == Limits(GIB, 60.0)
    arguments = parsed(sweep_command, "s3://b/p", "/data", *words)
    assert sweep_command.request_of(arguments, load_contract(None)).limits == Limits(GIB, 60.0)


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        ((), Limits(GIB, 60.0)),
        (("--max-at-risk", "2GiB"), Limits(2 * GIB, 60.0)),
        (("--max-durable", "0s"), Limits(GIB, 0.0)),
    ],
)
def test_advise_uses_its_own_limits_or_those_of_the_sweep(words, limits):
    assert limits_from(parsed(advise_command, "r.json", *words), Limits(GIB, 60.0)) == limits


@pytest.mark.parametrize("name", ["max_at_risk_bytes", "max_durable_s"])
def test_a_sweep_is_not_resumed_with_other_limits(tmp_path, name):
    results = Study(context=context(GIB, 60.0)).results
    results.save(tmp_path / "r.json")
    same = results.circumstances
    resumed = circumstances_here.resumed_results(tmp_path / "r.json", {}, same)
    assert limits_of(resumed.circumstances) == Limits(GIB, 60.0)
    for at_any_time in ({"available_bytes": GIB}, {"started_at": "later"}, {"version": "9"}):
        other_run = replace(same, node=replace(same.node, **at_any_time))
        assert circumstances_here.resumed_results(tmp_path / "r.json", {}, other_run).trials
    changes: list[dict[str, Any]] = [{name: other} for other in (None, 7)]
    for change in changes:
        with pytest.raises(UsageError, match=f"{name} differ"):
            asked = replace(same, node_class=replace(same.node_class, **change))
            circumstances_here.resumed_results(tmp_path / "r.json", {}, asked)
