# SPDX-License-Identifier: Apache-2.0
"""Runs until durable: kept in the results, part of a price, and of no comparison of times."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

from contracts.shared.errors import UsageError
from profiler.cli.predict import measured_s
from profiler.report.conclusions import verdict_text
from profiler.report.price import because_texts
from sysctl.advice.advise import advise
from sysctl.advice.analysis import analyse
from sysctl.advice.cases import fastest_within
from sysctl.advice.conclusions import KeepsLimits
from sysctl.advice.tradeoff import trade_off
from sysctl.evidence.price import Limits, price_of
from sysctl.evidence.price_label import Label
from sysctl.evidence.price_seen import Latency
from sysctl.evidence.protocol import stop_after_s
from sysctl.evidence.results import PRICE, Results, load
from sysctl.evidence.runs import Runs
from sysctl.sweep.steps import Step, run_trial
from tests.unit.studies import Study, ratio
from tests.unit.sweeps import CIRCUMSTANCES, GIB, PRICE_SEEN, MadeUpBench
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

SLOW = replace(PRICE_SEEN, fsync=Latency(0.01, 12.0, 31))
FAST = ratio(80)


def priced(study, setting=FAST, return_s=40.0, price=SLOW, **changes):
    """A run with a neighbour that took longer than any other: it would be seen in a time."""
    fields = {"durable_s": 70.0, "peak_dirty_bytes": 2 * GIB, "price": price, **changes}
    return study.add(PRICE, setting, return_s, **fields)


def document(results, tmp_path):
    results.save(tmp_path / "results.json")
    return json.loads((tmp_path / "results.json").read_text())


def read_back(document, tmp_path):
    (tmp_path / "changed.json").write_text(json.dumps(document))
    return load(tmp_path / "changed.json")


def test_an_observed_price_is_read_back_unchanged(tmp_path):
    bare = replace(PRICE_SEEN, fsync=None, refaulted_bytes=None, problem="none ran")
    results = priced(priced(Study()), price=bare).results
    again = read_back(document(results, tmp_path), tmp_path)
    assert [t.valid.price for t in Runs.of(again).of_role(PRICE)] == [SLOW, bare]
    assert again.trials == results.trials


def test_results_without_it_are_read_as_before(tmp_path):
    older = document(Study().tried(FAST, 4.0).results, tmp_path)
    for trial in older["trials"]:
        del trial["observation"]["price"]
    results = read_back(older, tmp_path)
    assert {trial.valid.price for trial in results.trials} == {None}
    assert price_of(Runs.of(results), FAST).seen is None


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("fsync", "count"), 0, "invalid latency"),
        (("fsync", "worst_s"), 0.001, "invalid latency"),
        (("fsync", "median_s"), -1.0, "invalid share or time"),
        (("read", "worst_s"), 1e12, "invalid latency"),
        (("memory_pressure_share",), 1.5, "invalid share"),
        (("refaulted_bytes",), -1, "invalid number of bytes"),
        (("observed_s",), 0, "invalid time"),
    ],
)
def test_damage_is_refused_with_its_reason(tmp_path, path, value, says):
    damaged = copy.deepcopy(document(priced(Study()).results, tmp_path))
    place = damaged["trials"][-1]["observation"]["price"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(UsageError, match=says):
        read_back(damaged, tmp_path)
    del place[path[-1]]
    with pytest.raises(UsageError, match="is missing"):
        read_back(damaged, tmp_path)


def test_the_observed_run_is_part_of_the_price():
    study = Study(durable_s=31.0).candidate(FAST, 4.0, peak_dirty_bytes=GIB)
    price = price_of(priced(study).runs, FAST)
    assert (price.at_risk_bytes, price.durable_s, price.after_return_s) == (2 * GIB, 70.0, 30.0)
    assert price.seen == SLOW
    assert price.rating.label is Label.HIGH


def test_the_last_run_with_a_neighbour_counts():
    study = priced(priced(Study()), price=PRICE_SEEN)
    assert price_of(study.runs, FAST).seen == PRICE_SEEN
    study.add(PRICE, FAST, 4.0, problem="another writer")
    assert price_of(study.runs, FAST).seen == PRICE_SEEN


def test_the_neighbours_waits_are_compared_with_those_under_the_current_settings():
    calm = replace(PRICE_SEEN, fsync=Latency(0.001, 0.002, 31))
    known = {"peak_dirty_bytes": GIB // 2, "durable_s": 44.0}
    study = priced(Study(), ratio(30, 10), price=PRICE_SEEN, **known)
    assert price_of(study.runs, ratio(30, 10)).rating.label is Label.LOW
    priced(study, PRESENT_SETTING, price=calm, **known)
    rating = price_of(study.runs, ratio(30, 10)).rating
    assert rating.label is Label.MODERATE
    assert "300 ms (2.00 ms under the current settings)" in because_texts(rating)[0]


def test_the_time_of_a_price_run_enters_no_comparison():
    searched = ratio(60)
    plain = Study(durable_s=31.0).candidate(searched, 6.0).tried(FAST, 4.0)
    study = Study(durable_s=31.0).candidate(searched, 6.0).tried(FAST, 4.0)
    for setting in (FAST, PRESENT_SETTING, searched):
        priced(study, setting, return_s=1.0, peak_dirty_bytes=GIB, durable_s=None)
    before, after = advise(plain.results), advise(study.results)
    assert verdict_text(after) == verdict_text(before)
    assert after.analysis.noise == before.analysis.noise
    assert [p.return_s for p in after.trade_off.points if p.runs] == [
        p.return_s for p in before.trade_off.points if p.runs
    ]
    assert stop_after_s(study.runs, {searched}) == stop_after_s(plain.runs, {searched})
    assert measured_s(study.runs, FAST) == measured_s(plain.runs, FAST)
    limits = Limits(max_at_risk_bytes=3 * GIB)
    here, there = (fastest_within(analyse(each.runs, limits)) for each in (study, plain))
    assert isinstance(here, KeepsLimits) and isinstance(there, KeepsLimits)
    assert here.times_s == there.times_s and here.present_s == there.present_s
    assert here.setting == there.setting


def test_a_setting_that_ran_with_a_neighbour_alone_has_no_time():
    runs = priced(Study()).runs
    analysis = analyse(runs, Limits())
    points = trade_off(analysis, analysis.present).points
    assert FAST not in [point.setting for point in points]
    assert runs.timed_s == {PRESENT_SETTING: [20.0, 20.1]}


def test_a_trial_of_that_role_is_kept_with_what_it_saw():
    bench = MadeUpBench()
    bench.apply(PRESENT_SETTING)
    assert bench.measure(durable=False, observe_price=True).price == PRICE_SEEN
    step = Step(PRICE, PRESENT_SETTING, durable=True, remaining=0)
    trial = run_trial(bench, step, Results(CIRCUMSTANCES, {}))
    assert (trial.role, trial.problem) == (PRICE, "")
