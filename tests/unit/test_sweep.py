"""The sweep's order, its resume and its failures, with a made-up bench."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from contracts.errors import UsageError, WritewiseError
from sysctl import recheck
from sysctl import results as results_module
from sysctl.budget import MIN_TRIALS, Budget
from sysctl.evidence import Verdict, compare, pairs_of
from sysctl.protocol import ATTEMPTS
from sysctl.results import CANDIDATE, PRESENT, RECHECK, Results, load
from sysctl.search.grid import build_grid
from sysctl.search.strategies import NAMES
from sysctl.setting import Setting
from sysctl.sweep import FLOOR_RUNS
from tests.unit import sweeps
from tests.unit.sweeps import GIB, by_ratio, failing, sweep


def roles(results):
    return [trial.role for trial in results.trials]


def blocks(results):
    """By pair: P for the present settings, else the dirty and the background ratio."""
    found = {}
    for trial in results.trials:
        if trial.pair is not None and not trial.problem:
            name = "P" if trial.role == PRESENT else tuple(trial.setting.values.values())
            found.setdefault(trial.pair, []).append(name)
    return list(found.values())


def test_the_floor_first_then_the_search_then_the_best_beside_the_present_settings():
    results = sweep()
    assert roles(results)[:8] == [PRESENT, PRESENT, *[CANDIDATE] * 6]
    assert blocks(results) == [["P", (80, 5)], [(80, 5), "P"]]


def test_several_finalists_share_the_present_runs_forwards_and_backwards():
    def seconds(setting, run):
        return {20: 19.0, 60: 3.5, 70: 3.4, 80: 3.3}[setting.values["vm.dirty_ratio"]]

    results = sweep(seconds, ratios=(60, 70, 80), backgrounds=(5,))
    assert blocks(results) == [
        ["P", (60, 5), (70, 5), (80, 5)],
        [(80, 5), (70, 5), (60, 5), "P"],
    ]
    assert {len(pairs_of(results, t.setting)) for t in results.of_role(RECHECK)} == {2}


def test_each_side_waits_for_the_device_once():
    durable = [t for t in sweep().trials if t.observation.durable_s]
    assert [(t.role, t.setting.values["vm.dirty_ratio"]) for t in durable] == [
        (PRESENT, 20),
        (RECHECK, 80),
    ]


def test_in_a_long_search_the_present_settings_run_in_between():
    results = sweep(ratios=(30, 40, 50, 60, 70, 80), seconds=lambda setting, run: 10.0)
    assert roles(results)[2:] == [*[CANDIDATE] * 8, PRESENT, *[CANDIDATE] * 4]


def test_without_a_gain_nothing_is_rechecked():
    results = sweep(lambda setting, run: 10.0 - 0.01 * run)
    assert RECHECK not in roles(results)


def test_a_gain_within_the_noise_of_the_present_settings_is_not_rechecked():
    def seconds(setting, run):
        return {1: 10.0, 2: 14.0}[run] if setting == sweeps.PRESENT else 9.0

    assert RECHECK not in roles(sweep(seconds))


def test_pairs_that_do_not_decide_are_followed_by_more_until_they_do():
    """The gain is 20 %, and the candidate's runs differ by 25 %: two pairs cannot tell."""
    times = {1: 8.0, 2: 7.0, 3: 9.0, 4: 8.0, 5: 7.5, 6: 8.5, 7: 8.0}

    def seconds(setting, run):
        return 10.0 + 0.01 * run if setting == sweeps.PRESENT else times[run]

    results = sweep(seconds, ratios=(40,), backgrounds=(5,))
    [setting] = {t.setting for t in results.of_role(RECHECK)}
    assert 2 < len(pairs_of(results, setting)) <= recheck.MAX_PAIRS
    assert compare(results, setting).verdict is Verdict.FASTER
    assert blocks(results)[2:4] == [["P", (40, 5)], [(40, 5), "P"]]


@pytest.mark.parametrize(
    ("times_s", "goes_on"),
    [
        ((1.0, 4.0), True),  # half as long as the decided one on average, but by which of the two?
        ((4.6, 5.6), False),  # wide, and no faster than the decided one
        ((20.0, 5.0), False),
    ],
)
def test_an_open_finalist_goes_on_where_it_may_be_preferred_to_a_decided_one(times_s, goes_on):
    """The decided one takes half of the present time in each pair."""

    def seconds(setting, run):
        if setting == sweeps.PRESENT:
            return 10.0
        if setting.values["vm.dirty_background_ratio"] == 5:
            return 5.0
        return 4.8 if run == 1 else times_s[run % 2]

    later = blocks(sweep(seconds, ratios=(40,)))[2:]
    assert bool(later) == goes_on
    assert {name for block in later for name in block} == ({"P", (40, 10)} if goes_on else set())


def test_a_budget_gives_more_pairs_where_they_do_not_decide():
    def seconds(setting, run):
        if setting == sweeps.PRESENT:
            return 10.0
        return 8.0 if run == 1 else (13.0 if run % 2 else 7.0)

    without = len(blocks(sweep(seconds, ratios=(40,), backgrounds=(5,))))
    asked = sweep(seconds, ratios=(40,), backgrounds=(5,), budget=Budget(trials=31))
    assert without == recheck.MAX_PAIRS
    assert len(blocks(asked)) == 14
    assert len(asked.trials) == 31


@pytest.mark.parametrize("trials", range(MIN_TRIALS, 16))
def test_a_budget_of_trials_is_kept_and_always_ends_in_a_comparison(trials):
    results = sweep(budget=Budget(trials=trials), ratios=(80, 60, 40))
    assert len(results.trials) <= trials
    finalist = results.of_role(RECHECK)[0].setting
    assert len(pairs_of(results, finalist)) == recheck.MIN_PAIRS


def test_a_budget_of_minutes_is_kept():
    bench = sweeps.MadeUpBench()
    results = sweep(bench=bench, budget=Budget(time_s=180.0))
    assert bench.now_s == sum(trial.elapsed_s for trial in results.trials) <= 180.0
    assert len(pairs_of(results, results.of_role(RECHECK)[0].setting)) == recheck.MIN_PAIRS


@pytest.mark.parametrize("is_candidate", [True, False])
@pytest.mark.parametrize("strategy", NAMES)
def test_present_settings_and_the_kernels_default_come_first_and_once(strategy, is_candidate):
    default = Setting(
        (("vm.dirty_ratio", 40), ("vm.dirty_background_ratio", 10 if is_candidate else 20))
    )
    results = sweep(always=(default,), strategy=strategy)
    tried = [t.setting for t in results.of_role(CANDIDATE)]
    assert [t.setting for t in results.trials[:3]] == [sweeps.PRESENT, sweeps.PRESENT, default]
    assert tried.count(default) == 1
    assert len(tried) > 1


def test_a_candidate_that_can_no_longer_win_is_stopped():
    def seconds(setting, run):
        return 50.0 if setting.values["vm.dirty_ratio"] == 60 else by_ratio(setting, run)

    stopped = [t for t in sweep(seconds).trials if t.stopped_s]
    assert [t.setting.values["vm.dirty_ratio"] for t in stopped] == [60, 60]
    assert [t.stopped_s for t in stopped] == [pytest.approx(1.5 * 8.75)] * 2


def test_candidates_go_from_the_smallest_threshold_to_the_largest():
    grid, _ = build_grid(
        {"vm.dirty_ratio": (80, 40), "vm.dirty_background_ratio": (10, 5)}, (), sweeps.PRESENT, GIB
    )
    order = [tuple(setting.values.values()) for setting in grid.candidates]
    assert order == [(40, 5), (40, 10), (80, 5), (80, 10)]


def test_pairs_that_the_kernel_would_halve_are_left_out_with_the_reason():
    values = {"vm.dirty_ratio": (5, 40), "vm.dirty_background_ratio": (5, 10)}
    grid, left_out = build_grid(values, ("", "noatime"), sweeps.PRESENT, GIB)
    assert len(grid.candidates) == 4
    assert [item.what for item in left_out] == [
        "dirty_ratio=5 dirty_background_ratio=5",
        "dirty_ratio=5 dirty_background_ratio=10",
    ]
    assert all("halve" in item.why for item in left_out)


def test_bytes_are_compared_with_a_ratio_that_stays():
    grid, left_out = build_grid({"vm.dirty_bytes": (2**20, GIB)}, (), sweeps.PRESENT, 4 * GIB)
    assert [setting.values for setting in grid.candidates] == [{"vm.dirty_bytes": GIB}]
    assert len(left_out) == 1


@pytest.mark.parametrize("killed_after", range(22))
def test_resume_after_a_kill_at_any_trial_goes_on_as_if_nothing_had_happened(
    tmp_path, killed_after
):
    """Each setting's first run fails and its second is disturbed, so repeats are resumed too."""

    def key(results):
        return [(t.role, t.setting, t.pair, t.problem, t.stopped_s) for t in results.trials]

    whole, bench = sweep(bench=flaky_bench()), flaky_bench()
    part = sweep(bench=bench, at_most=killed_after) if killed_after else Results(whole.context, {})
    part.save(tmp_path / "r.json")
    resumed = sweep(results=load(tmp_path / "r.json"), bench=bench)
    assert len(whole.trials) > 22
    assert key(resumed) == key(whole)


def flaky_bench():
    def seconds(setting, run):
        if run == 1:
            failing("the endpoint is down")
        return by_ratio(setting, run)

    return sweeps.MadeUpBench(
        seconds, lambda setting, run: {"others_dirtied_bytes": GIB if run == 2 else 0}
    )


def test_a_failed_trial_is_repeated_and_kept_with_its_reason_and_the_sweep_goes_on():
    def seconds(setting, run):
        if setting.values["vm.dirty_ratio"] == 60:
            failing("the endpoint is down")
        return by_ratio(setting, run)

    results = sweep(seconds)
    problems = [trial.problem for trial in results.trials if trial.problem]
    assert problems == ["the endpoint is down"] * 6
    assert blocks(results) == [["P", (80, 5)], [(80, 5), "P"]]


def test_a_sweep_ends_where_the_destination_is_lost():
    """Three failures may be the setting's own fault; then the destination is asked."""

    def seconds(setting, run):
        if setting.values["vm.dirty_ratio"] == 60:
            failing("Input/output error")
        return by_ratio(setting, run)

    bench = sweeps.MadeUpBench(seconds)
    bench.lost = "the volume is gone"
    results = Results(dict(sweeps.CONTEXT), {}, [])
    with pytest.raises(WritewiseError, match="the volume is gone"):
        sweep(bench=bench, results=results)
    assert [trial.problem for trial in results.trials[-ATTEMPTS:]] == ["Input/output error"] * 3
    assert {t.setting.values["vm.dirty_ratio"] for t in results.of_role(CANDIDATE)} == {40, 60}


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
    assert len([t for t in results.of_role(CANDIDATE) if t.valid]) == 6
    assert blocks(results) == [["P", (80, 5)], [(80, 5), "P"]]


def test_a_block_without_a_run_of_the_present_settings_ends_there_and_others_follow():
    """The present run of the first block fails three times: nothing is measured beside it."""
    disturbed = range(FLOOR_RUNS + 1, FLOOR_RUNS + 1 + ATTEMPTS)

    def seconds(setting, run):
        if setting == sweeps.PRESENT and run in disturbed:
            failing("disturbed")
        return by_ratio(setting, run)

    results = sweep(seconds, ratios=(80,), backgrounds=(5,))
    assert roles(results)[3:-4] == [PRESENT] * ATTEMPTS
    assert blocks(results) == [[(80, 5), "P"], ["P", (80, 5)]]
    assert len(pairs_of(results, results.of_role(RECHECK)[0].setting)) == recheck.MIN_PAIRS


def test_invalid_trials_are_no_evidence():
    """Another writer disturbs the first run of every setting."""

    def changed(setting, run):
        return {"others_dirtied_bytes": GIB if run == 1 else 0}

    results = sweep(bench=sweeps.MadeUpBench(changed=changed))
    invalid = [t for t in results.trials if t.problem]
    assert len(invalid) == 7
    assert all("other programs dirtied 1.00 GiB" in t.problem for t in invalid)
    assert all(t.observation and not t.valid for t in invalid)


def test_without_a_valid_present_run_the_sweep_ends_with_its_reason_and_keeps_no_trial():
    results = Results(dict(sweeps.CONTEXT), {})
    with pytest.raises(WritewiseError, match=r"present settings in 3 attempts: no such bucket"):
        sweep(lambda setting, run: failing("no such bucket"), results=results)
    assert results.trials == []


def test_without_a_second_valid_run_of_the_present_settings_there_is_no_floor():
    """What is known is kept, and a sweep that is resumed tries again."""
    results = sweep(at_most=1)
    with pytest.raises(WritewiseError, match="no valid pull under the present settings in 3"):
        sweep(lambda setting, run: failing("disturbed"), results=results)
    assert roles(results) == [PRESENT]
    assert roles(sweep(results=results))[:3] == [PRESENT, PRESENT, CANDIDATE]


def test_later_failures_of_the_present_settings_end_no_sweep():
    def seconds(setting, run):
        if setting == sweeps.PRESENT and run > FLOOR_RUNS:
            failing("disturbed")
        return by_ratio(setting, run)

    results = sweep(seconds)
    assert len([t for t in results.of_role(CANDIDATE) if t.valid]) == 6
    [finalist, *_] = [t.setting for t in results.of_role(RECHECK)]
    assert compare(results, finalist).verdict is Verdict.UNKNOWN


def test_results_come_back_from_the_file_as_they_were(tmp_path):
    results = sweep(mount_options=("", "noatime"))
    results.save(tmp_path / "r.json")
    loaded = load(tmp_path / "r.json")
    assert loaded.trials == results.trials
    assert loaded.context == results.context


@pytest.mark.parametrize("keep", [0, 1, 20, 500, 2000])
def test_a_file_cut_short_is_refused_with_a_sentence(tmp_path, keep):
    sweep().save(tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "cut.json").write_text(text[:keep])
    with pytest.raises(UsageError, match=r"cut short|empty"):
        load(tmp_path / "cut.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format="other"), "no results file"),
        (lambda d: d.update(version=99), "version 99"),
        (lambda d: d.pop("trials"), "lacks 'trials'"),
        (lambda d: d["context"].pop("fstype"), "lacks 'fstype'"),
        (lambda d: d["context"].update(available_bytes="x"), "no number"),
        (lambda d: d["context"].update(mount_words="noatime"), "list of words"),
        (lambda d: d["trials"][0]["setting"]["sysctls"].update({"kernel.x": 1}), "no setting"),
        (lambda d: d["trials"][0]["observation"].update(return_s=float("nan")), "NaN"),
        (lambda d: d["trials"][0]["observation"].update(return_s=0), "no time"),
        (lambda d: d["trials"][0]["observation"].update(bytes=10**400), "no number"),
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


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError):
            load(path)
    (tmp_path / "deep").write_text("[" * 200_000)
    with pytest.raises(UsageError, match="no results file"):
        load(tmp_path / "deep")


def test_a_file_is_replaced_and_a_symlink_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "r.json").symlink_to(victim)
    results_module.write_atomically(tmp_path / "r.json", "new")
    assert victim.read_text() == "mine"
    assert (tmp_path / "r.json").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "victim"]


def test_settings_print_as_a_person_would_write_them():
    setting = Setting((("vm.dirty_ratio", 40),), "")
    assert str(setting) == "dirty_ratio=40 mount=defaults"
