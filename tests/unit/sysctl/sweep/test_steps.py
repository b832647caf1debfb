# SPDX-License-Identifier: Apache-2.0
"""The sweep's order, its resume and its failures, with a made-up bench."""

from __future__ import annotations

import contextlib
import json
import os
import random
from pathlib import Path

import pytest

from contracts.shared.errors import UsageError, WritewiseError
from contracts.shared.writing import write_atomically
from sysctl.advice.advise import advise
from sysctl.advice.analysis import analyse
from sysctl.advice.conclusions import Case
from sysctl.evidence.comparison import MAX_PAIRS, MIN_PAIRS, Verdict, compare, pairs_of
from sysctl.evidence.price import Limits, limits_of
from sysctl.evidence.protocol import ATTEMPTS
from sysctl.evidence.results import CANDIDATE, PRESENT, PRICE, RECHECK, Results, load
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import effective_thresholds
from sysctl.search.edge import EdgeSearch, ladders_of
from sysctl.search.extras import MOUNT, PAIRS, Extra
from sysctl.search.strategies import EDGE, GRID
from sysctl.sweep.budget import MIN_TRIALS, Budget
from sysctl.sweep.steps import SweepPlan, left_out, remaining, run_sweep
from tests.unit import sweeps
from tests.unit.sweeps import GIB, by_ratio, failing, sweep


def by_freerun(setting, run):
    """19 s at present; 3.3 s, without a wait, from a freerun of 1.2 GiB on: dirty_ratio 60."""
    freerun_bytes = effective_thresholds(setting.values, 4 * GIB).freerun_bytes
    return 3.3 if freerun_bytes >= 1.2 * GIB else 19.0 - 10 * freerun_bytes / GIB


def edge_bench(seconds=by_freerun, changed=lambda setting, run: {}):
    """As `by_freerun`: the most that is dirty points to the edge."""
    peak = {"peak_dirty_bytes": int(1.1 * GIB)}
    return sweeps.MadeUpBench(seconds, lambda setting, run: {**peak, **changed(setting, run)})


def roles(results):
    return [trial.role for trial in results.trials]


def ratios(tried):
    """The dirty and the background ratio of what has a setting."""
    return tuple(tried.setting.values.values())


def name_of(trial):
    """P for the present settings, else the dirty and the background ratio, + with an extra."""
    if trial.setting == sweeps.PRESENT:
        return "P"
    return (*ratios(trial), *["+"] * (trial.setting.mount_options is not None))


def blocks(results):
    """The names of the valid runs by block."""
    found: dict[int, list[object]] = {}
    for trial in results.trials:
        if trial.pair is not None and trial.valid:
            found.setdefault(trial.pair, []).append(name_of(trial))
    return list(found.values())


def finalists(results):
    return list(dict.fromkeys(trial.setting for trial in Runs.of(results).of_role(RECHECK)))


# --- the order ----------------------------------------------------------------------------------


def test_price_and_present_then_the_search_then_pairs_then_the_price_of_the_chosen():
    results = sweep(backgrounds=(10,))
    assert roles(results) == [
        *(PRICE, PRESENT),
        *[CANDIDATE] * 3,
        *(PRESENT, RECHECK, RECHECK, PRESENT),
        PRICE,
    ]
    assert blocks(results) == [["P", (80, 10)], [(80, 10), "P"]]


def test_the_edge_search_goes_on_to_the_smallest_change_that_suffices():
    results = sweep(bench=edge_bench(), strategy=EDGE)
    tried = [name_of(trial) for trial in Runs.of(results).of_role(CANDIDATE)]
    assert tried == [(90, 10), (50, 10), (60, 10)]
    assert blocks(results) == [["P", (60, 10)], [(60, 10), "P"]]
    assert name_of(results.trials[-1]) == (60, 10)


def test_where_no_writer_waits_at_present_the_edge_search_tries_nothing():
    results = sweep(lambda setting, run: 3.3, strategy=EDGE)
    assert roles(results) == [PRICE, PRESENT]


def test_several_finalists_share_the_present_runs_forwards_and_backwards():
    def seconds(setting, run):
        return {20: 19.0, 60: 3.5, 80: 3.3}[setting.values["vm.dirty_ratio"]]

    results = sweep(seconds, ratios=(60, 80), backgrounds=(5,))
    first, second = blocks(results)
    assert set(first) == {"P", (60, 5), (80, 5)} and second == first[::-1]
    assert {len(pairs_of(Runs.of(results), setting)) for setting in finalists(results)} == {2}


def test_each_side_is_watched_until_all_is_durable_once_in_a_run_that_is_compared_with_none():
    durable = [trial for trial in sweep().trials if trial.observation.durable_s]
    assert {trial.role for trial in durable} == {PRICE}
    assert [name_of(trial) for trial in durable] == ["P", (80, 10), (80, 5)], "the preferred first"


def test_the_first_run_is_in_no_comparison_however_slow_it_was():
    def seconds(setting, run):
        return 60.0 if setting == sweeps.PRESENT and run == 1 else by_ratio(setting, run)

    slow, usual = sweep(seconds), sweep()
    assert [ratios(t) for t in slow.trials] == [ratios(t) for t in usual.trials]
    assert [t.stopped_s for t in slow.trials] == [t.stopped_s for t in usual.trials]
    assert compare(Runs.of(slow), finalists(slow)[0]) == compare(
        Runs.of(usual), finalists(usual)[0]
    )


def test_without_a_gain_nothing_is_rechecked():
    results = sweep(lambda setting, run: 10.0 - 0.01 * run)
    assert RECHECK not in roles(results)
    assert roles(results).count(PRICE) == 1


def test_pairs_that_do_not_decide_are_followed_by_more_until_they_do():
    """The gain is 20 %, and the candidate's runs differ by 25 %: two pairs cannot tell."""
    times = {1: 8.0, 2: 7.0, 3: 9.0, 4: 8.0, 5: 7.5, 6: 8.5, 7: 8.0, 8: 8.0}

    def seconds(setting, run):
        return 10.0 + 0.01 * run if setting == sweeps.PRESENT else times[run]

    results = sweep(seconds, ratios=(40,), backgrounds=(5,))
    [setting] = finalists(results)
    assert MIN_PAIRS < len(pairs_of(Runs.of(results), setting)) <= MAX_PAIRS
    assert compare(Runs.of(results), setting).verdict is Verdict.FASTER


def test_pairs_that_never_decide_end_after_the_most():
    def seconds(setting, run):
        if setting == sweeps.PRESENT:
            return 10.0
        return 8.0 if run == 1 else (13.0 if run % 2 else 7.0)

    for budget in (None, Budget(trials=100)):
        results = sweep(seconds, ratios=(40,), backgrounds=(5,), budget=budget)
        assert len(blocks(results)) == MAX_PAIRS
        assert roles(results)[-1] != PRICE, "nothing is recommended"


def test_only_undecided_finalists_get_more_pairs():
    """One takes half of the time in each pair; two pairs do not decide on the other."""

    def seconds(setting, run):
        if setting == sweeps.PRESENT:
            return 10.0
        if setting.values["vm.dirty_background_ratio"] == 10:
            return 5.0
        return 4.9 if run == 1 else (9.5 if run % 2 else 6.0)

    made = blocks(sweep(seconds, ratios=(40,)))
    assert [len(block) for block in made[:2]] == [3, 3]
    assert len(made) > 2
    assert all(set(block) == {"P", (40, 5)} for block in made[2:])


def test_a_candidate_that_can_no_longer_win_is_stopped():
    def seconds(setting, run):
        return 50.0 if setting.values["vm.dirty_ratio"] == 60 else by_ratio(setting, run)

    stopped = [trial for trial in sweep(seconds).trials if trial.stopped_s]
    assert [trial.setting.values["vm.dirty_ratio"] for trial in stopped] == [60, 60]
    assert [trial.stopped_s for trial in stopped] == [pytest.approx(1.5 * 8.75)] * 2


# --- extras -------------------------------------------------------------------------------------


def with_extra(part, base=by_freerun):
    """With mount options the pull takes that part of its time."""

    def seconds(setting, run):
        return base(setting, run) * (part if setting.mount_options else 1.0) + 0.005 * (run % 3)

    return seconds


def test_an_extra_is_compared_with_the_setting_found_and_then_with_the_current_one():
    results = sweep(bench=edge_bench(with_extra(0.9)), strategy=EDGE, mount_options=("noatime",))
    base, better = (60, 10), (60, 10, "+")
    made = blocks(results)
    assert [set(block) for block in made] == [{base, better}] * PAIRS + [{"P", better}] * MIN_PAIRS
    assert all(made[at] == made[at - 1][::-1] for at in range(1, PAIRS + MIN_PAIRS, 2))
    assert name_of(results.trials[-1]) == better
    assert [each.setting.mount_options for each in analyse(Runs.of(results), Limits()).within] == [
        "noatime"
    ]


@pytest.mark.parametrize(("part", "at_the_end_of_the_search"), [(0.9, 13), (1.01, 13)])
def test_the_remaining_trials_include_the_runs_of_extras(part, at_the_end_of_the_search):
    extras = (Extra(MOUNT, "noatime", is_asked_for=True),)
    whole = sweep(bench=edge_bench(with_extra(part)), strategy=EDGE, mount_options=("noatime",))
    searched = 2 + roles(whole).count(CANDIDATE)
    left = [
        remaining(Results(whole.circumstances, {}, trials=whole.trials[:at]), plan_of(extras))
        for at in range(searched, len(whole.trials))
    ]
    assert left[0] == 2 * PAIRS + 2 * MIN_PAIRS + 1 == at_the_end_of_the_search
    assert left == sorted(left, reverse=True)
    assert left[-1] == 1


def test_an_extra_that_does_nothing_is_given_up_after_two_blocks():
    results = sweep(bench=edge_bench(with_extra(1.01)), strategy=EDGE, mount_options=("noatime",))
    base = (60, 10)
    assert [set(block) for block in blocks(results)] == [
        *[{base, (*base, "+")}] * 2,
        *[{"P", base}] * MIN_PAIRS,
    ]


def test_extras_are_compared_with_the_current_settings_if_nothing_is_found():
    results = sweep(
        with_extra(0.9, lambda setting, run: 3.3), strategy=EDGE, mount_options=("noatime",)
    )
    assert [set(block) for block in blocks(results)] == [{"P", (20, 10, "+")}] * PAIRS
    [faster] = analyse(Runs.of(results), Limits()).within
    assert Runs.of(results).baseline.changed_options(faster.setting) == {"noatime"}


def test_extras_are_tried_under_the_preferred_finalist_alone():
    results = sweep(with_extra(1.01, by_ratio), mount_options=("noatime", "lazytime"))
    with_it = {ratios(t) for t in results.trials if t.setting.mount_options}
    assert with_it == {(80, 10)}
    assert CANDIDATE not in {t.role for t in results.trials if t.setting.mount_options}


def plan_of(extras, budget=None):
    ladders = ladders_of(sweeps.PRESENT.values, 4 * GIB, Limits(), 40 * 48 * 2**20)
    return SweepPlan(sweeps.PRESENT, EdgeSearch(ladders), extras, budget or Budget())


def test_reasons_against_an_extra_are_known_when_the_search_has_ended():
    calm = edge_bench(changed=lambda setting, run: {"split_s": {"other sleeping": 0.0}})
    whole, plan = sweep(bench=calm, strategy=EDGE), plan_of((Extra(MOUNT, "noatime"),))
    reasons = [
        [
            item.what
            for item in left_out(Results(whole.circumstances, {}, trials=whole.trials[:at]), plan)
        ]
        for at in range(len(whole.trials) + 1)
    ]
    searched = 2 + roles(whole).count(CANDIDATE)
    assert reasons == [[]] * searched + [[MOUNT]] * (len(whole.trials) + 1 - searched)


def test_a_budget_that_ends_the_search_ends_it_for_the_reasons_of_extras_too():
    calm = edge_bench(changed=lambda setting, run: {"split_s": {"other sleeping": 0.0}})
    budget = Budget(trials=MIN_TRIALS)
    results = sweep(bench=calm, strategy=EDGE, budget=budget)
    plan = plan_of((Extra(MOUNT, "noatime"),), budget)
    assert [item.what for item in left_out(results, plan)] == [MOUNT]


def test_extras_that_help_together_are_compared_with_the_current_settings_after_any_blocks():
    """Writers do not wait: first each extra alone with the current settings; one block fails."""
    noatime, deep = Extra(MOUNT, "noatime", True), Extra("queue/nr_requests", "64", True)

    def seconds(setting, run):
        if run == 3 and setting == noatime.of(sweeps.PRESENT):
            failing("disturbed")
        part = (0.8 if setting.mount_options else 1.0) * (0.85 if setting.device else 1.0)
        return 3.3 * part + 0.005 * (run % 3)

    results = Results(sweeps.CIRCUMSTANCES, {})
    bench = edge_bench(seconds)
    run_sweep(
        results, plan_of((noatime, deep)), bench, on_step=lambda _: None, on_trial=lambda _: None
    )
    both = deep.of(noatime.of(sweeps.PRESENT))
    assert len(pairs_of(Runs.of(results), both)) >= MIN_PAIRS
    assert both in [each.setting for each in analyse(Runs.of(results), Limits()).within]


# --- what it may cost ---------------------------------------------------------------------------


@pytest.mark.parametrize("extras", [(), ("noatime",)])
@pytest.mark.parametrize("strategy", [GRID, EDGE])
@pytest.mark.parametrize("trials", range(MIN_TRIALS, 24))
def test_a_budget_of_trials_is_kept_and_always_ends_in_a_comparison(trials, strategy, extras):
    seconds = with_extra(0.9, by_ratio if strategy == GRID else by_freerun)
    results = sweep(
        bench=edge_bench(seconds),
        budget=Budget(trials=trials),
        ratios=(80, 60, 40),
        strategy=strategy,
        mount_options=extras,
    )
    assert len(results.trials) <= trials
    assert analyse(Runs.of(results), Limits()).within
    assert max(len(pairs_of(Runs.of(results), each)) for each in finalists(results)) >= MIN_PAIRS


def test_a_budget_ends_pairs_that_do_not_decide():
    def seconds(setting, run):
        if setting == sweeps.PRESENT:
            return 10.0
        return 8.0 if run == 1 else (13.0 if run % 2 else 7.0)

    for trials, pairs in ((10, 3), (12, 4)):
        limited = sweep(seconds, ratios=(40,), backgrounds=(5,), budget=Budget(trials=trials))
        assert (len(blocks(limited)), len(limited.trials)) == (pairs, 3 + 2 * pairs)


@pytest.mark.parametrize("trials", range(MIN_TRIALS, 16))
def test_a_budget_of_trials_is_kept_where_runs_fail(trials):
    """Also for runs that are repeated, and in the first two blocks."""
    dice = random.Random(trials)

    def disturbed(setting, run):
        return failing("other programs wrote") if dice.random() < 0.5 else by_ratio(setting, run)

    budget = Budget(trials=trials)
    for _ in range(20):
        with contextlib.suppress(WritewiseError):  # no run of the present settings was valid
            results = sweep(disturbed, ratios=(80,), budget=budget)
            assert len(results.trials) <= trials
            assert advise(results).case is not Case.NO_DIFFERENCE, "too little was measured"


def test_two_blocks_run_even_if_they_take_longer_than_the_budget_had_room_for():
    """A single pair would be no comparison, so all before it would have been for nothing."""

    def seconds(setting, run):
        return 190.0 if setting == sweeps.PRESENT and run > 2 else by_ratio(setting, run)

    bench = sweeps.MadeUpBench(seconds)
    results = sweep(bench=bench, ratios=(80,), budget=Budget(time_s=220.0))
    assert bench.now_s > 220.0
    assert len(pairs_of(Runs.of(results), finalists(results)[0])) == MIN_PAIRS
    assert roles(results)[-1] != PRICE


def test_a_larger_budget_does_not_open_the_search_again_after_the_pairs():
    """What was found is what the pairs are of."""
    before = sweep(bench=edge_bench(), strategy=EDGE, budget=Budget(trials=MIN_TRIALS))
    kept = list(before.trials)
    assert roles(before)[-1] == PRICE, "the smallest budget has room for it"
    after = sweep(bench=edge_bench(), strategy=EDGE, results=before, budget=Budget(trials=30))
    assert after.trials == kept


def test_a_budget_of_minutes_is_kept():
    bench = sweeps.MadeUpBench()
    results = sweep(bench=bench, budget=Budget(time_s=220.0))
    assert bench.now_s == sum(trial.elapsed_s for trial in results.trials) <= 220.0
    assert len(pairs_of(Runs.of(results), finalists(results)[0])) == MIN_PAIRS


@pytest.mark.parametrize("is_enough", [True, False])
def test_extras_are_not_begun_where_the_budget_has_no_room_for_them_and_the_recheck(is_enough):
    """The search ends after 5 trials; 2 of a block, 4 of the recheck, and the price."""
    results = sweep(
        bench=edge_bench(with_extra(0.9)),
        strategy=EDGE,
        mount_options=("noatime",),
        budget=Budget(trials=5 + 2 + 4 + 1 - (not is_enough)),
    )
    made = blocks(results)
    assert ((60, 10, "+") in made[0]) == is_enough
    assert [set(block) for block in made[-2:]] == [{"P", (60, 10)}] * 2


def test_the_number_of_trials_still_to_come_ends_at_none_and_is_right_for_a_plain_sweep():
    whole = sweep(bench=edge_bench(), strategy=EDGE)
    plan = plan_of(())
    expected = [
        remaining(Results(whole.circumstances, {}, trials=whole.trials[:at]), plan)
        for at in range(len(whole.trials))
    ]
    assert expected == list(range(len(whole.trials), 0, -1))


class LateBench(sweeps.MadeUpBench):
    """At a dirty ratio of 80 all is on the device after 90 s, else after 30 s."""

    def observed(self, seconds, setting, durable):
        late_s = 90.0 if setting.values["vm.dirty_ratio"] == 80 else 30.0
        return {
            **super().observed(seconds, setting, durable),
            "durable_s": late_s if durable else None,
        }


def test_no_more_trials_are_said_to_come_than_the_budget_has():
    whole = sweep(bench=edge_bench(), strategy=EDGE)
    plan = plan_of((), Budget(trials=9))
    known = Results(whole.circumstances, {}, trials=whole.trials[:3])
    assert remaining(known, plan) == 6 < remaining(known, plan_of(()))


def test_a_setting_that_its_price_run_shows_to_be_beyond_the_limits_gives_way_to_the_next():
    """Before it runs nobody knows: these runs have no course from which to predict it."""
    results = Results(sweeps.circumstances(max_durable_s=60.0), {})
    times = {20: 19.0, 60: 3.5, 80: 3.3}
    bench = LateBench(lambda setting, run: times[setting.values["vm.dirty_ratio"]])
    sweep(bench=bench, results=results, ratios=(60, 80), backgrounds=(10,))
    assert [name_of(trial) for trial in Runs.of(results).of_role(PRICE)] == [
        "P",
        (80, 10),
        (60, 10),
    ]
    assert [
        ratios(each) for each in analyse(Runs.of(results), limits_of(results.circumstances)).within
    ] == [(60, 10)]


# --- resume and failures ------------------------------------------------------------------------


def flaky_bench(seconds):
    """Each setting's first run fails and its second is disturbed, so repeats are resumed too."""

    def fails_at_first(setting, run):
        return failing("the endpoint is down") if run == 1 else seconds(setting, run)

    def disturbed(setting, run):
        return {"others_dirtied_bytes": GIB if run == 2 else 0}

    return edge_bench(fails_at_first, disturbed)


@pytest.mark.parametrize(
    ("strategy", "seconds", "extras", "most"),
    [
        (GRID, by_ratio, (), None),
        (GRID, by_ratio, ("noatime",), 40),
        (EDGE, with_extra(0.9), ("noatime", "lazytime"), None),
        (EDGE, with_extra(1.01), ("noatime",), None),
        (EDGE, with_extra(0.9), ("noatime",), 30),
    ],
)
def test_resume_after_a_kill_at_any_trial_goes_on_as_if_nothing_had_happened(
    tmp_path, strategy, seconds, extras, most
):
    def key(results):
        return [(t.role, t.setting, t.pair, t.problem, t.stopped_s) for t in results.trials]

    asked = {"strategy": strategy, "mount_options": extras, "budget": Budget(trials=most)}
    whole = sweep(bench=flaky_bench(seconds), **asked)
    assert len(whole.trials) > 20
    for killed_after in range(1, len(whole.trials)):
        bench = flaky_bench(seconds)
        sweep(bench=bench, at_most=killed_after, **asked).save(tmp_path / "r.json")
        resumed = sweep(results=load(tmp_path / "r.json"), bench=bench, **asked)
        assert key(resumed) == key(whole)
    assert key(sweep(results=whole, bench=edge_bench(seconds), **asked)) == key(whole), "at its end"


def test_a_failed_trial_is_repeated_and_kept_with_its_reason_and_the_sweep_goes_on():
    def seconds(setting, run):
        if setting.values["vm.dirty_ratio"] == 60:
            failing("the endpoint is down")
        return by_ratio(setting, run)

    results = sweep(seconds)
    problems = [trial.problem for trial in results.trials if trial.problem]
    assert problems == ["the endpoint is down"] * 6
    assert {name for block in blocks(results) for name in block} == {"P", (80, 10), (80, 5)}


def test_a_sweep_ends_where_the_destination_is_lost():
    """Three failures may be the setting's own fault; then the destination is asked."""

    def seconds(setting, run):
        if setting.values["vm.dirty_ratio"] == 60:
            failing("Input/output error")
        return by_ratio(setting, run)

    bench = sweeps.MadeUpBench(seconds)
    bench.lost = "the volume is gone"
    results = Results(sweeps.CIRCUMSTANCES, {}, [])
    with pytest.raises(WritewiseError, match="the volume is gone"):
        sweep(bench=bench, results=results)
    assert [trial.problem for trial in results.trials[-ATTEMPTS:]] == ["Input/output error"] * 3
    assert {t.setting.values["vm.dirty_ratio"] for t in Runs.of(results).of_role(CANDIDATE)} == {
        40,
        60,
    }


@pytest.mark.parametrize("failures", [1, 2])
def test_a_trial_that_fails_at_first_counts_when_it_is_repeated(failures):
    failed = []

    def seconds(setting, run):
        if run <= failures:
            failed.append(setting)
            failing("disturbed")
        return by_ratio(setting, run)

    results = sweep(seconds)
    assert len([t for t in results.trials if t.problem]) == 7 * failures == len(failed)
    assert len([t for t in Runs.of(results).of_role(CANDIDATE) if t.valid]) == 6
    assert [len(block) for block in blocks(results)] == [3, 3]


def test_a_block_without_a_current_run_does_not_count_and_another_follows():
    """The current run of the first block fails three times."""
    disturbed = range(3, 3 + ATTEMPTS)

    def seconds(setting, run):
        if setting == sweeps.PRESENT and run in disturbed:
            failing("disturbed")
        return by_ratio(setting, run)

    results = sweep(seconds, ratios=(80,), backgrounds=(5,))
    assert [sorted(map(str, block)) for block in blocks(results)] == [
        ["(80, 5)"],
        ["(80, 5)", "P"],
        ["(80, 5)", "P"],
    ]
    assert len(pairs_of(Runs.of(results), finalists(results)[0])) == MIN_PAIRS


def test_a_finalist_that_keeps_failing_ends_the_recheck_after_the_most_blocks():
    def seconds(setting, run):
        if setting != sweeps.PRESENT and run > 1:
            failing("disturbed")
        return by_ratio(setting, run)

    results = sweep(seconds, ratios=(80,), backgrounds=(5,))
    assert blocks(results) == [["P"]] * MAX_PAIRS
    assert compare(Runs.of(results), finalists(results)[0]).verdict is Verdict.UNKNOWN


def test_invalid_trials_are_no_evidence():
    """Another writer disturbs the first run of every setting."""

    def changed(setting, run):
        return {"others_dirtied_bytes": GIB if run == 1 else 0}

    results = sweep(bench=sweeps.MadeUpBench(changed=changed))
    invalid = [t for t in results.trials if t.problem]
    assert len(invalid) == 7
    assert all("other programs dirtied 1.00 GiB" in t.problem for t in invalid)
    assert all(t.observation and not t.valid for t in invalid)


def test_a_run_that_waited_for_a_cpu_is_repeated_or_later_not_counted():
    """The first runs of the finalist waited 20 % of their time, or its third run did."""

    def bench_of(*starved):
        def changed(setting, run):
            is_starved = setting.values["vm.dirty_ratio"] == 80 and run in starved
            return {"split_s": {"waiting for a CPU": 0.2 * 3.35 * is_starved}, "writers": 1}

        return sweeps.MadeUpBench(lambda setting, run: by_ratio(setting, 1), changed)

    later = sweep(bench=bench_of(3), ratios=(80,), backgrounds=(5,))
    [problem] = [trial.problem for trial in later.trials if trial.problem]
    assert "writers waited for a CPU for 20% of their time (usually 0%" in problem
    at_first = sweep(bench=bench_of(1, 2), ratios=(80,), backgrounds=(5,))
    assert [trial.problem for trial in at_first.trials if trial.problem] == []
    assert len(blocks(at_first)) == MIN_PAIRS + 1, "one block more for the pair that does not count"
    assert len(pairs_of(Runs.of(at_first), finalists(at_first)[0])) == MIN_PAIRS


def test_without_a_valid_present_run_the_sweep_ends_with_its_reason_and_keeps_no_trial():
    results = Results(sweeps.CIRCUMSTANCES, {})
    with pytest.raises(WritewiseError, match=r"current settings in 3 attempts: no such bucket"):
        sweep(lambda setting, run: failing("no such bucket"), results=results)
    assert results.trials == []


def test_a_price_run_alone_is_no_basis_of_a_comparison():
    """The results are kept, and a resumed sweep tries again."""
    results = sweep(at_most=1)
    with pytest.raises(WritewiseError, match="no valid pull under the current settings in 3"):
        sweep(lambda setting, run: failing("disturbed"), results=results)
    assert roles(results) == [PRICE]
    assert roles(sweep(results=results))[:3] == [PRICE, PRESENT, CANDIDATE]


def test_later_failures_of_the_current_settings_do_not_end_a_sweep():
    def seconds(setting, run):
        if setting == sweeps.PRESENT and run > 2:
            failing("disturbed")
        return by_ratio(setting, run)

    results = sweep(seconds)
    assert len([t for t in Runs.of(results).of_role(CANDIDATE) if t.valid]) == 6
    assert compare(Runs.of(results), finalists(results)[0]).verdict is Verdict.UNKNOWN


# --- the results file ---------------------------------------------------------------------------


def test_results_are_read_back_from_the_file_unchanged(tmp_path):
    results = sweep(mount_options=("", "noatime"))
    results.save(tmp_path / "r.json")
    loaded = load(tmp_path / "r.json")
    assert loaded.trials == results.trials
    assert loaded.circumstances == results.circumstances


@pytest.mark.parametrize("keep", [0, 1, 20, 500, 2000])
def test_a_file_cut_short_is_refused_with_a_sentence(tmp_path, keep):
    sweep().save(tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "cut.json").write_text(text[:keep])
    with pytest.raises(UsageError, match=r"truncated|empty"):
        load(tmp_path / "cut.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format="other"), "not a results file"),
        (lambda d: d.update(version=99), "version 99"),
        (lambda d: d.pop("trials"), "'trials' is missing"),
        (lambda d: d["circumstances"]["class"].pop("fstype"), "'fstype' is missing"),
        (lambda d: d["circumstances"]["node"].update(available_bytes="x"), "invalid number"),
        (lambda d: d["circumstances"]["class"].update(mount_words="noatime"), "list of words"),
        (lambda d: d["circumstances"].pop("node"), "'node' is missing"),
        (lambda d: d["trials"][0]["setting"]["sysctls"].update({"kernel.x": 1}), "invalid setting"),
        (lambda d: d["trials"][0]["observation"].update(return_s=float("nan")), "NaN"),
        (lambda d: d["trials"][0]["observation"].update(return_s=0), "invalid time"),
        (lambda d: d["trials"][0]["observation"].update(bytes=10**400), "invalid number"),
        (lambda d: d["trials"][0]["observation"].update(peak_dirty_bytes=1e999), "Infinity"),
        (lambda d: d["trials"][0].update(role="x"), "role"),
        (lambda d: d["trials"][0].update(setting=3), "damaged"),
        (lambda d: d["trials"][0]["observation"].pop("return_s"), "return_s"),
        (lambda d: d["trials"].append(None), "damaged"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path, change, says):
    sweep().save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    change(document)
    (tmp_path / "r.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=says):
        load(tmp_path / "r.json")


def test_a_path_that_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError):
            load(path)
    (tmp_path / "deep").write_text("[" * 200_000)
    with pytest.raises(UsageError, match="not a results file"):
        load(tmp_path / "deep")


def test_a_file_is_replaced_and_a_symlink_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "r.json").symlink_to(victim)
    write_atomically(tmp_path / "r.json", "new")
    assert victim.read_text() == "mine"
    assert (tmp_path / "r.json").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "victim"]


def test_settings_print_as_a_person_would_write_them():
    setting = Setting((("vm.dirty_ratio", 40),), "")
    assert str(setting) == "dirty_ratio=40 mount=defaults"
