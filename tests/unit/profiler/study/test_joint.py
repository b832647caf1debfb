# SPDX-License-Identifier: Apache-2.0
"""A sweep of host and pull settings: what it tries, recommends and writes for each."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from contracts.shared.errors import UsageError
from profiler.cli.change_source import read_change
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import by_name
from profiler.pull.settings import TransferSettings, parse_settings
from profiler.pull.source import Location, PullPlan, RemoteObject
from profiler.report.conclusions import note_texts, verdict_text
from profiler.report.reasons import reason_texts
from profiler.study.joint import (
    TrialWorkers,
    combinations,
    present_transfer,
    settings_with,
    swept_values,
)
from profiler.study.space import GRID_VALUES, Space
from sysctl.advice.advise import advise
from sysctl.advice.reasons import KEEP, SET
from sysctl.change.recommendation_file import from_json
from sysctl.evidence.results import CANDIDATE, RECHECK, Results, TracePoint, load
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.knobs.transfer import SWEPT_BY_DEFAULT, TRANSFER_KNOBS, transfer_problems
from sysctl.knobs.writeback import effective_thresholds
from sysctl.search.grid import Grid, build_grid
from sysctl.search.strategies import EDGE, make_strategy
from sysctl.sweep.budget import Budget
from sysctl.sweep.steps import SweepPlan, run_sweep
from tests.unit.changes import change_in
from tests.unit.strategies import OVER_CANDIDATES
from tests.unit.sweeps import CIRCUMSTANCES, GIB, PRESENT, MadeUpBench, circumstances

MIB = 2**20
BASE = TransferSettings()
TRANSFERS = [
    (("max_concurrency", threads), ("io_chunksize", io))
    for threads in (10, 20)
    for io in (256 * 1024, MIB)
]
JOINT = replace(PRESENT, transfer=TRANSFERS[0])
VALUES = {"vm.dirty_ratio": (20, 40, 80), "vm.dirty_background_ratio": (10,)}


def joint_s(setting, run):
    """Thresholds save a half, transfer settings another quarter."""
    by_host = {20: 10.0, 40: 7.0, 80: 5.0}[setting.values["vm.dirty_ratio"]]
    by_pull = 0.75 if dict(setting.transfer)["io_chunksize"] == MIB else 1.0
    return by_host * by_pull + 0.01 * run


def pull_alone_s(setting, run):
    """Thresholds do nothing."""
    return (5.0 if dict(setting.transfer)["io_chunksize"] == MIB else 10.0) + 0.01 * run


def at_thresholds(setting, run):
    """Writers wait, and more is at risk with higher thresholds."""
    at = effective_thresholds(setting.values, 4 * GIB)
    return {"stall_share": 0.5, "peak_dirty_bytes": at.dirty_bytes}


def pull_of(*sizes):
    return PullPlan(
        Location("b", "p"),
        tuple(RemoteObject(f"k{i}", f"k{i}", n, "") for i, n in enumerate(sizes)),
    )


def joint_sweep(seconds, strategy="grid", results=None, at_most=None, present=JOINT):
    """A joint sweep to its end, or of `at_most` trials more."""
    grid, left_out = build_grid(VALUES, present, 4 * GIB, TRANSFERS)
    candidates = tuple(setting for setting in grid if setting != present)
    search = make_strategy(strategy, candidates, seed=1)
    where = circumstances(transfer_settings=asdict(BASE))
    found = results or Results(where, {}, left_out)
    bench = MadeUpBench(seconds, at_thresholds)

    def on_trial(trial):
        if at_most is not None and len(found.trials) >= at_most:
            raise KeyboardInterrupt

    plan = SweepPlan(present, search)
    with contextlib.suppress(KeyboardInterrupt):
        run_sweep(found, plan, bench, on_step=lambda step: None, on_trial=on_trial)
    return found


def test_a_gain_of_the_pull_does_not_depend_on_waiting_writers(monkeypatch):
    monkeypatch.setattr(f"{__name__}.at_thresholds", lambda *_: {"stall_share": 0.0})
    nothing = joint_sweep(lambda setting, run: 10.0 + 0.01 * run)
    verdict = verdict_text(advise(nothing))
    assert verdict.startswith("No change recommended")
    assert "dirty throttling" not in verdict and "writers never waited" not in verdict


def test_both_halves_are_recommended_each_value_with_its_reason():
    recommendation = advise(joint_sweep(joint_s))
    best = recommendation.best.setting
    assert best.values["vm.dirty_ratio"] == 80
    assert dict(best.transfer)["io_chunksize"] == MIB
    reasons = {reason.name: reason for reason in reason_texts(recommendation)}
    assert reasons["io_chunksize"].action == SET
    assert (reasons["io_chunksize"].value, reasons["io_chunksize"].before) == ("1MiB", "256KiB")
    assert {"vm.dirty_ratio", "max_concurrency"} <= set(reasons)
    assert all(reason.why for reason in reason_texts(recommendation))
    host, pull = replace(best, transfer=JOINT.transfer), replace(best, sysctls=PRESENT.sysctls)
    for half, took in ((host, "50.1%"), (pull, "75.0%")):
        [note] = [note for note in note_texts(recommendation) if str(half) in note]
        assert f"took {took}" in note and "not as fast" in note


def test_a_half_that_does_nothing_is_left_out():
    recommendation = advise(joint_sweep(pull_alone_s))
    change = change_in(recommendation)
    assert recommendation.best.setting.values["vm.dirty_ratio"] == 20
    assert change.transfer["io_chunksize"] == MIB and not change.changes_sysctls
    assert {r.action for r in reason_texts(recommendation) if r.name.startswith("vm.")} == {KEEP}


@pytest.mark.parametrize("strategy", OVER_CANDIDATES)
def test_the_halves_of_the_fastest_are_measured_in_pairs_whatever_searches(strategy):
    """Also those that the search did not try."""
    results = joint_sweep(joint_s, strategy)
    rechecked = {trial.setting for trial in Runs.of(results).of_role(RECHECK)}
    best = min(
        (t for t in Runs.of(results).of_role(CANDIDATE) if t.valid), key=lambda t: t.valid.return_s
    )
    thresholds, pull = best.setting.sysctls, best.setting.transfer
    assert best.setting in rechecked
    assert thresholds != PRESENT.sysctls and pull != JOINT.transfer
    assert replace(best.setting, transfer=JOINT.transfer) in rechecked
    assert replace(best.setting, sysctls=PRESENT.sysctls) in rechecked


def test_where_a_budget_is_too_small_for_the_halves_the_best_alone_is_measured_in_pairs():
    best = replace(JOINT, sysctls=(("vm.dirty_ratio", 80), ("vm.dirty_background_ratio", 10)))
    best = replace(best, transfer=TRANSFERS[3])
    bench = MadeUpBench(lambda tried, run: 4.0 if tried == best else 9.0)
    for trials, measured in ((12, 3), (10, 2), (8, 1)):
        results, plan = Results(CIRCUMSTANCES, {}), SweepPlan(JOINT, Grid((best,)))
        plan = replace(plan, budget=Budget(trials=trials))
        run_sweep(results, plan, bench, on_step=lambda step: None, on_trial=lambda trial: None)
        rechecked = list(
            dict.fromkeys(trial.setting for trial in Runs.of(results).of_role(RECHECK))
        )
        assert len(rechecked) == measured and best in rechecked
        assert len(results.trials) <= trials


def test_a_joint_sweep_is_resumed_from_its_file_at_any_trial(tmp_path):
    path, whole = tmp_path / "results.json", joint_sweep(joint_s, "random")
    for count in (1, 4, len(whole.trials) - 2):
        joint_sweep(joint_s, "random", at_most=count).save(path)
        known = load(path)
        assert len(known.trials) == count
        resumed = joint_sweep(joint_s, "random", known)
        assert [t.setting for t in resumed.trials] == [t.setting for t in whole.trials]


def test_an_invalid_setting_of_the_pull_is_damage(tmp_path):
    path = tmp_path / "results.json"
    joint_sweep(joint_s).save(path)
    for values in ({"max_concurrency": 0}, {"umask": 1}, {"io_chunksize": "x"}, ["io_chunksize"]):
        document = json.loads(path.read_text())
        document["trials"][-1]["setting"]["transfer"] = values
        bad = tmp_path / "bad.json"
        bad.write_text(json.dumps(document))
        with pytest.raises(UsageError, match="damaged"):
            load(bad)


def test_the_recommendation_has_all_settings_of_the_pull_and_reads_back():
    change = change_in(advise(joint_sweep(joint_s)))
    assert {**asdict(BASE), "io_chunksize": MIB} == {**change.transfer, "max_concurrency": 10}
    assert from_json(json.loads(json.dumps(change.to_json())), "x") == change


def test_apply_takes_the_hosts_half_and_refuses_the_pulls_alone(tmp_path):
    path = tmp_path / "recommendation.json"
    change = change_in(advise(joint_sweep(joint_s)))
    path.write_text(json.dumps(change.to_json()))
    assert read_change(path).sysctl_values["vm.dirty_ratio"] == 80
    alone = replace(change, originals=change.sysctl_values)
    path.write_text(json.dumps(alone.to_json()))
    with pytest.raises(UsageError, match="settings of the pull alone"):
        read_change(path)


@pytest.mark.parametrize(("setting", "is_suspect"), [(0, True), (1, False)])
def test_a_slower_pull_is_not_a_slower_disk(setting, is_suspect):
    slow = replace(JOINT, sysctls=(("vm.dirty_ratio", 40), ("vm.dirty_background_ratio", 10)))
    slow = replace(slow, transfer=TRANSFERS[setting])

    def course(tried, run):
        rate = 50 * MIB if tried == slow else 100 * MIB
        return {"trace": tuple(TracePoint(t, 2 * GIB, t * rate) for t in range(8))}

    bench = MadeUpBench(lambda tried, run: 9.0, course)
    results = Results(CIRCUMSTANCES, {})
    plan = SweepPlan(JOINT, Grid((slow,)))
    run_sweep(results, plan, bench, on_step=lambda step: None, on_trial=lambda trial: None)
    problems = [trial.problem for trial in Runs.of(results).of_role(CANDIDATE)]
    assert any("out of credits" in problem for problem in problems) == is_suspect


def test_the_candidates_include_the_current_settings():
    base = TransferSettings(max_concurrency=339, multipart_chunksize=400 * MIB)
    values = swept_values(base, SWEPT_BY_DEFAULT, 3 * GIB)
    assert 339 in values["max_concurrency"] and 400 * MIB in values["multipart_chunksize"]
    every, heavy = combinations(base, SWEPT_BY_DEFAULT, pull_of(3 * GIB), 1, 2**50)
    assert present_transfer(base, SWEPT_BY_DEFAULT) in every and not heavy
    assert len(every) == len(set(every))


def test_sizes_beyond_the_object_are_one_value():
    values = swept_values(BASE, ("multipart_chunksize", "use_threads"), 20 * MIB)
    assert values["multipart_chunksize"] == tuple(size * MIB for size in (1, 2, 4, 8, 16, 32))
    assert values["use_threads"] == (0, 1)
    exact = swept_values(BASE, ("multipart_chunksize",), 16 * MIB)
    assert exact["multipart_chunksize"][-1] == 16 * MIB


def test_what_takes_memory_from_the_page_cache_is_left_out_with_its_reason():
    pull = pull_of(*[64 * MIB] * 40)
    every, [left] = combinations(BASE, SWEPT_BY_DEFAULT, pull, 2, 4 * GIB)
    assert "more than 10% of the 4.00 GiB of available memory" in left.why
    held = [
        values["io_chunksize"] * (values["max_io_queue"] + values["max_concurrency"])
        for values in map(dict, every)
    ]
    assert 0.02 * GIB < max(held) <= 0.2 * GIB
    heavy_base, names = TransferSettings(io_chunksize=64 * MIB), SWEPT_BY_DEFAULT
    kept, _ = combinations(heavy_base, names, pull_of(GIB), 1, GIB)
    assert present_transfer(heavy_base, names) in kept


def test_a_switch_is_handed_to_the_workers_as_one():
    assert settings_with(BASE, (("use_threads", 0),)).use_threads is False


def test_the_joint_space_searches_both_by_time():
    space = Space(transfer=SWEPT_BY_DEFAULT)
    assert space.strategy_name in ("bayes", "random") and space.swept_values == GRID_VALUES
    alone = Space(transfer=SWEPT_BY_DEFAULT, vm=False)
    assert alone.swept_values == {} and alone.is_of_pull_alone and not space.is_of_pull_alone
    assert "transfer" in space.to_json() and "transfer" not in Space().to_json()
    with pytest.raises(UsageError, match="does not try transfer settings"):
        Space(transfer=SWEPT_BY_DEFAULT, strategy=EDGE)
    with pytest.raises(UsageError, match="unknown transfer setting 'speed'"):
        Space(transfer=("speed",))


def test_results_without_transfer_settings_do_not_mention_them(tmp_path: Path):
    assert "transfer" not in PRESENT.to_json()
    assert type(PRESENT).from_json(PRESENT.to_json()) == PRESENT


@pytest.mark.parametrize("knob", TRANSFER_KNOBS, ids=lambda knob: knob.name)
def test_the_knobs_are_the_settings_that_a_pull_takes(knob):
    assert getattr(BASE, knob.name) == knob.default
    assert list(knob.sweep) == sorted({*knob.sweep, knob.default})
    for value in (knob.minimum, *knob.sweep, knob.maximum):
        assert getattr(parse_settings(f"{knob.name}={knob.text(value)}"), knob.name) == value
    for value in (knob.minimum - 1, knob.maximum + 1):
        assert transfer_problems({knob.name: value})
        with pytest.raises(UsageError):
            parse_settings(f"{knob.name}={value}")
    assert bool(transfer_problems({knob.name: True})) != knob.is_switch


def test_every_setting_of_a_pull_is_a_knob():
    assert {knob.name for knob in TRANSFER_KNOBS} == set(asdict(BASE))


def test_a_trial_s_workers_pull_with_the_client_of_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []

    class Pool:
        def __init__(self, access, settings, count, make_client) -> None:
            made.append((settings.max_concurrency, make_client))

        def start(self) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr("profiler.study.joint.WorkerPool", Pool)
    client = by_name("boto3")
    with TrialWorkers(S3Access(), TransferSettings(), 1, client) as workers:
        workers.fresh(Setting((), transfer=(("max_concurrency", 7),)))
    assert made == [(7, client.make)]
