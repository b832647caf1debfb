"""Strategies: from the results alone, each candidate once, and nothing that cannot matter."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from sysctl.search.relevance import skip_reason
from sysctl.search.staged import (
    MOUNT,
    StagedSearch,
    Variation,
    in_one_mount,
    wide_variations,
)

from contracts.errors import RequirementError
from sysctl.results import CANDIDATE, PRESENT, Observation, TracePoint, Trial
from sysctl.search import bayes
from sysctl.search.bayes import BayesSearch
from sysctl.search.grid import Grid, build_grid
from sysctl.search.random import RandomSearch
from sysctl.search.strategies import NAMES, make_strategy
from sysctl.setting import Setting
from sysctl.writeback import Thresholds

GIB = 2**30
VALUES = {
    "vm.dirty_ratio": (10, 20, 30, 40, 50, 60, 80),
    "vm.dirty_background_ratio": (2, 5, 10, 20, 30, 40, 50),
}
NOW = Setting((("vm.dirty_ratio", 20), ("vm.dirty_background_ratio", 10)))
CANDIDATES = build_grid(VALUES, (), NOW, 4 * GIB)[0].candidates


def observed(seconds=10.0, **changes):
    seen = Observation(
        return_s=seconds,
        durable_s=None,
        stall_share=0.5,
        peak_dirty_bytes=GIB,
        thresholds=Thresholds(GIB // 2, GIB),
        limit_bytes=GIB,
        bytes=2 * GIB,
        objects=40,
        split_s={"dirty throttling": 8.0, "waiting for the device": 0.0, "on CPU": 2.0},
    )
    return dataclasses.replace(seen, **changes)


CALM = {
    "stall_share": 0.001,
    "peak_dirty_bytes": GIB // 4,
    "split_s": {"dirty throttling": 0.0, "on CPU": 2.0},
}


def trial(setting, seconds, role=CANDIDATE, **changes):
    return Trial(role, setting, "now", observed(seconds, **changes))


def seconds_of(setting):
    """A valley: the fastest is dirty 60, background 30."""
    values = setting.values
    return (
        5
        + abs(values["vm.dirty_ratio"] - 60) / 10
        + abs(values["vm.dirty_background_ratio"] - 30) / 10
    )


def run(strategy, done=(), seconds=seconds_of):
    """Every trial of a search, told to it one after the other."""
    trials = list(done)
    while True:
        remaining = strategy.remaining(trials)
        setting = strategy.next_setting(trials)
        assert (setting is None) == (remaining == 0)
        if setting is None:
            return trials
        trials.append(trial(setting, seconds(setting)))


def made(name, max_trials=None):
    strategy = make_strategy(name, CANDIDATES, {}, 3)
    return dataclasses.replace(strategy, max_trials=max_trials) if max_trials else strategy


class TestEveryStrategy:
    """What holds for each strategy without a model of its own."""

    @pytest.fixture(params=["grid", "random", "bayes"])
    def name(self, request):
        return request.param

    def test_each_candidate_is_proposed_once_and_none_from_elsewhere(self, name):
        tried = [t.setting for t in run(made(name))]
        assert len(tried) == len(set(tried)) > 0
        assert set(tried) <= set(CANDIDATES)

    def test_a_search_that_is_resumed_goes_on_as_it_would_have(self, name):
        whole = run(made(name))
        for stopped_after in (0, 1, 5, len(whole) - 1):
            assert run(made(name), whole[:stopped_after]) == whole

    def test_asking_twice_changes_nothing(self, name):
        done = run(made(name))[:4]
        assert made(name).next_setting(done) == made(name).next_setting(list(done))

    def test_failed_stopped_and_foreign_trials_do_not_disturb(self, name):
        strategy = made(name)
        first = strategy.next_setting([])
        failed = Trial(CANDIDATE, first, "now", None, "the endpoint is down")
        second = strategy.next_setting([failed])
        stopped = Trial(CANDIDATE, second, "now", None, stopped_s=12.0)
        foreign = trial(Setting((("vm.dirty_bytes", GIB),)), 4.0)
        third = strategy.next_setting([failed, stopped, foreign])
        assert len({first, second, third, None}) == 4

    def test_one_candidate_alone_is_tried(self, name):
        strategy = make_strategy(name, CANDIDATES[:1], {}, 0)
        assert [t.setting for t in run(strategy)] == [CANDIDATES[0]]


def test_every_name_makes_a_strategy():
    for name in NAMES:
        assert make_strategy(name, CANDIDATES, {}, 0).remaining([]) > 0


def test_a_seed_decides_the_random_order():
    orders = {tuple(t.setting for t in run(RandomSearch(CANDIDATES, seed))) for seed in range(5)}
    assert len(orders) == 5
    assert all(len(order) == 12 for order in orders)


@pytest.mark.parametrize("name", ["random", "bayes"])
def test_the_largest_seed_that_the_command_line_takes_serves(name):
    assert make_strategy(name, CANDIDATES, {}, 2**31 - 1).next_setting([]) in CANDIDATES


def test_bayes_is_nearer_to_the_best_than_chance():
    """Over ten seeds: TPE's mean best of 15 trials against that of random draws."""

    def mean_best(make):
        bests = [min(t.valid.return_s for t in run(make(seed))) for seed in range(10)]
        return sum(bests) / len(bests)

    tpe = mean_best(lambda seed: BayesSearch(CANDIDATES, seed, 15))
    drawn = mean_best(lambda seed: RandomSearch(CANDIDATES, seed, 15))
    assert tpe < drawn


def test_bayes_takes_numbers_names_and_texts_of_mount_options():
    grid, _ = build_grid(
        {"vm.dirty_ratio": (40, 60)},
        ("defaults", "noatime"),
        NOW,
        4 * GIB,
        {"queue/nr_requests": ("64", "256"), "queue/scheduler": ("none", "bfq")},
    )
    tried = run(BayesSearch(grid.candidates, 0, 16), seconds=lambda setting: 5.0)
    assert {t.setting for t in tried} == set(grid.candidates)


def test_without_optuna_the_install_command_is_named(monkeypatch):
    monkeypatch.setattr(bayes.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RequirementError, match="needs Optuna") as error:
        make_strategy("bayes", CANDIDATES, {}, 0)
    assert "tools/setup bayes" in error.value.hint


def test_optuna_is_not_imported_before_it_is_needed():
    code = "import sys, sysctl.search.strategies; assert not {'optuna', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_grid_combines_knobs_of_the_disk_with_the_rest():
    device = {"queue/scheduler": ("none", "bfq"), "queue/nr_requests": ("64",)}
    grid, _ = build_grid({"vm.dirty_ratio": (40, 60)}, ("", "noatime"), NOW, 4 * GIB, device)
    assert len(grid.candidates) == 8
    assert str(grid.candidates[0]) == (
        "dirty_ratio=40 queue/scheduler=none queue/nr_requests=64 mount=defaults"
    )


# --- what cannot matter ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "seen", "says"),
    [
        ("vm.dirty_ratio", {}, ""),
        ("vm.dirty_ratio", CALM, "made to wait from 768"),
        ("vm.dirty_background_bytes", CALM, "0.1% of their time"),
        ("bdi/max_ratio", CALM, "at most 256"),
        ("vm.dirty_ratio", {**CALM, "peak_dirty_bytes": GIB}, ""),
        ("vm.dirty_expire_centisecs", CALM, ""),
        ("queue/scheduler", {}, ""),
        ("queue/scheduler", CALM, "waited for the device for 0.0%"),
        ("queue/nr_requests", {**CALM, "split_s": {"waiting for the device": 1.0}}, ""),
        ("queue/wbt_lat_usec", {**CALM, "split_s": {}}, ""),
        ("queue/read_ahead_kb", {}, ""),
        ("queue/read_ahead_kb", {"device_read_bytes": 4096}, "4.00 KiB were read"),
        ("queue/read_ahead_kb", {"device_read_bytes": GIB}, ""),
        (MOUNT, CALM, ""),
    ],
)
def test_only_what_took_no_part_is_left_out(name, seen, says):
    reason = skip_reason(name, observed(**seen))
    assert (says in reason) if says else reason == ""


# --- one knob at a time ---------------------------------------------------------------------

BFQ, DEEP = Variation("queue/scheduler", "bfq"), Variation("queue/nr_requests", "256")
RARE, NOATIME = Variation("vm.dirty_writeback_centisecs", "100"), Variation(MOUNT, "noatime")
ALL = (BFQ, DEEP, RARE, NOATIME)
PRESENT_RUN = trial(NOW, 20.0, PRESENT)


def test_knobs_are_varied_one_at_a_time_around_the_fastest_of_the_core():
    done = run(StagedSearch(Grid(CANDIDATES), ("vm.dirty_ratio",), ALL), [PRESENT_RUN])
    best = min(done[: 1 + len(CANDIDATES)], key=lambda t: t.valid.return_s).setting
    assert [str(t.setting) for t in done[1 + len(CANDIDATES) :]] == [
        f"{best} queue/scheduler=bfq",
        f"{best} queue/nr_requests=256",
        f"{best} dirty_writeback_centisecs=100",
        f"{best} mount=noatime",
    ]


def test_a_staged_search_is_resumed_at_any_point():
    strategy = StagedSearch(Grid(CANDIDATES), (), ALL)
    whole = run(strategy, [PRESENT_RUN])
    for stopped_after in range(1, len(whole)):
        assert run(strategy, whole[:stopped_after]) == whole


def test_a_variation_that_turned_out_faster_does_not_move_the_base():
    fast = StagedSearch(Grid(CANDIDATES[:2]), (), ALL)
    done = run(fast, [PRESENT_RUN], seconds=lambda s: 1.0 if s.device else seconds_of(s))
    assert [len(t.setting.device) for t in done[3:]] == [1, 1, 0, 0]


def test_present_settings_are_varied_when_nothing_was_faster():
    done = run(StagedSearch(Grid(CANDIDATES[:2]), (), (DEEP,)), [trial(NOW, 1.0, PRESENT)])
    assert done[-1].setting == DEEP.of(NOW)


def test_what_the_present_runs_rule_out_is_not_tried_and_named_with_its_figures():
    calm = trial(NOW, 3.0, PRESENT, device_read_bytes=0, **CALM)
    names = ("vm.dirty_ratio", "vm.dirty_background_ratio")
    search = StagedSearch(Grid(CANDIDATES), names, (*ALL, Variation("queue/read_ahead_kb", "64")))
    done = run(search, [calm])
    assert [t.setting for t in done[1:]] == [NOATIME.of(NOW)]
    left_out = {item.what: item.why for item in search.left_out(done)}
    device = ("queue/scheduler", "queue/nr_requests", "queue/read_ahead_kb")
    assert set(left_out) == {*names, "vm.dirty_writeback_centisecs", *device}
    assert all("0.1%" in left_out[name] for name in names)
    assert "no page was 5.00 s old" in left_out["vm.dirty_writeback_centisecs"]


@pytest.mark.parametrize(
    ("trace", "return_s", "reason"),
    [
        (
            ((1.0, 0), (2.5, GIB)),
            20.0,
            "write-back began after 2.50 s, at the background threshold",
        ),
        (((1.0, 0), (7.0, GIB)), 20.0, ""),
        (((1.0, 0), (4.0, 0)), 4.5, "no page was 5.00 s old before the pull returned"),
        ((), 9.0, ""),
    ],
)
def test_periodic_write_back_is_tried_where_it_may_come_first(trace, return_s, reason):
    points = tuple(TracePoint(time_s, held, 0) for time_s, held in trace)
    said = skip_reason("vm.dirty_expire_centisecs", observed(return_s, trace=points))
    assert said.startswith(reason) if reason else said == ""


def test_the_default_space_tries_mount_options_in_one_trial():
    every = wide_variations({"vm.dirty_expire_centisecs": 3000}, {}, "xfs", ("noatime",))
    assert in_one_mount(every)[-1] == Variation(MOUNT, "lazytime,logbsize=256k")
    assert [each for each in in_one_mount(every) if each.name != MOUNT] == [
        each for each in every if each.name != MOUNT
    ]
    assert in_one_mount(every[:1]) == every[:1]


def test_what_was_asked_for_by_name_is_tried_whatever_the_evidence():
    calm = trial(NOW, 3.0, PRESENT, **CALM)
    assert len(run(StagedSearch(Grid(CANDIDATES[:3])), [calm])) == 4
    assert StagedSearch(Grid(CANDIDATES[:3])).left_out([calm]) == []


def test_the_most_throttled_of_the_present_runs_decides():
    runs = [trial(NOW, 3.0, PRESENT, **CALM), trial(NOW, 9.0, PRESENT)]
    search = StagedSearch(Grid(CANDIDATES[:1]), ("vm.dirty_ratio",))
    assert search.next_setting(runs) == CANDIDATES[0]


def test_a_wide_sweep_takes_what_the_host_has_but_for_what_is_in_force():
    present = {"vm.dirty_expire_centisecs": 3000, "vm.dirty_writeback_centisecs": 500}
    disk = {"queue/scheduler": "none", "queue/nr_requests": "128"}
    shown = [f"{v.name}={v.value}" for v in wide_variations(present, disk, "xfs", ("noatime",))]
    assert shown == [
        "vm.dirty_expire_centisecs=500",
        "vm.dirty_writeback_centisecs=100",
        "queue/scheduler=mq-deadline",
        "queue/nr_requests=64",
        "queue/nr_requests=256",
        "mount options=lazytime",
        "mount options=logbsize=256k",
    ]


def test_what_the_core_combines_is_not_varied_too():
    disk = {"queue/nr_requests": "128", "bdi/max_ratio": "100", "bdi/strict_limit": "0"}
    named = ("vm.dirty_expire_centisecs", "queue/nr_requests", "bdi/max_bytes", MOUNT)
    names = [v.name for v in wide_variations({}, disk, "ext4", (), named)]
    assert names == ["vm.dirty_writeback_centisecs"] * 2 + ["bdi/strict_limit"]
