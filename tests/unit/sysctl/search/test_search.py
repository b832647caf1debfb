# SPDX-License-Identifier: Apache-2.0
"""Strategies over candidates: from the results alone, each candidate once."""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys

import pytest

from contracts.shared.errors import RequirementError
from sysctl.evidence.results import CANDIDATE, PRESENT, PRICE, Trial
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.search import tpe
from sysctl.search.bayes import BayesSearch
from sysctl.search.grid import build_grid
from sysctl.search.random import drawn
from sysctl.search.strategies import BAYES, GRID, RANDOM, SYNE_TUNE, make_strategy
from tests.unit.strategies import OVER_CANDIDATES
from tests.unit.studies import Study, observed
from tests.unit.sweeps import CIRCUMSTANCES, GIB
from tests.unit.sweeps import PRESENT as NOW

VALUES = {
    "vm.dirty_ratio": (10, 20, 30, 40, 50, 60, 80),
    "vm.dirty_background_ratio": (2, 5, 10, 20, 30, 40, 50),
}
CANDIDATES, _ = build_grid(VALUES, NOW, 4 * GIB)


def trial(setting, seconds, role=CANDIDATE):
    return Trial(role, setting, "now", observed(seconds, setting))


def seconds_of(setting):
    """A valley: the fastest is dirty 60, background 30."""
    values = setting.values
    return (
        5
        + abs(values["vm.dirty_ratio"] - 60) / 10
        + abs(values["vm.dirty_background_ratio"] - 30) / 10
    )


#: Of other roles or of other studies: none of them is a candidate.
FOREIGN = (
    Setting((("vm.dirty_ratio", 21), ("vm.dirty_background_ratio", 10))),
    Setting((("vm.dirty_bytes", GIB),)),
    Setting(CANDIDATES[0].sysctls, "noatime"),
)


@pytest.mark.parametrize("name", OVER_CANDIDATES)
@pytest.mark.parametrize("foreign", [(), FOREIGN])
def test_a_running_trial_is_not_proposed_again(name, foreign):
    """Each host takes the next setting while those of the others run."""
    strategy = make_strategy(name, CANDIDATES, seed=3)
    done = [trial(CANDIDATES[7], seconds_of(CANDIDATES[7]))]
    pending: list[Setting] = []
    while len(pending) < strategy.remaining(of(done)):
        setting = strategy.next_setting(of(done), [*foreign, *pending])
        assert setting in CANDIDATES
        assert setting not in pending
        assert setting != CANDIDATES[7]
        pending.append(setting)
    assert pending
    assert strategy.next_setting(of(done), [*foreign, *pending]) is None


def of(trials):
    return Runs(CIRCUMSTANCES, tuple(trials))


def run(strategy, done=(), seconds=seconds_of):
    """Run a search and report each trial to it, one after the other."""
    trials = list(done)
    while True:
        remaining = strategy.remaining(of(trials))
        setting = strategy.next_setting(of(trials))
        assert (setting is None) == (remaining == 0)
        if setting is None:
            return trials
        trials.append(trial(setting, seconds(setting)))


@pytest.mark.parametrize("name", OVER_CANDIDATES)
class TestEveryStrategy:
    """What holds for each strategy over candidates."""

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
        assert made(name).next_setting(of(done)) == made(name).next_setting(of(done))

    def test_failed_stopped_and_foreign_trials_do_not_disturb(self, name):
        strategy = made(name)
        first = strategy.next_setting(of([]))
        failed = Trial(CANDIDATE, first, "now", None, "the endpoint is down")
        second = strategy.next_setting(of([failed]))
        stopped = Trial(CANDIDATE, second, "now", None, stopped_s=12.0)
        foreign = trial(Setting((("vm.dirty_bytes", GIB),)), 4.0)
        third = strategy.next_setting(of([failed, stopped, foreign]))
        assert len({first, second, third, None}) == 4

    def test_current_runs_are_not_candidates_even_with_the_same_setting(self, name):
        strategy = made(name)
        first = strategy.next_setting(of([]))
        roles = (PRICE, PRESENT)
        assert strategy.next_setting(of(trial(first, 9.0, role) for role in roles)) == first

    def test_a_running_trial_is_not_proposed_again(self, name):
        strategy, done = made(name), run(made(name))[:5]
        under_way: list[Setting] = []
        for _ in range(3):
            under_way.append(strategy.next_setting(of(done), under_way))
        assert len({*under_way, *(t.setting for t in done)}) == 8

    def test_no_more_trials_run_than_are_to_be_tried(self, name):
        strategy = make_strategy(name, CANDIDATES[:3], 0)
        under_way: list[Setting] = []
        while setting := strategy.next_setting(of([]), under_way):
            under_way.append(setting)
        assert {*under_way} == {*CANDIDATES[:3]}

    def test_one_candidate_alone_is_tried(self, name):
        strategy = make_strategy(name, CANDIDATES[:1], 0)
        assert [t.setting for t in run(strategy)] == [CANDIDATES[0]]

    def test_its_finalists_are_the_best_of_those_it_tried(self, name):
        done = run(made(name), [trial(NOW, 40.0, PRESENT)])
        fastest = min(done[1:], key=lambda t: t.valid.return_s).setting
        assert made(name).finalists(of(done))[-1] == fastest
        assert list(made(name).finalists(of(done[:1]))) == []


def made(name):
    return make_strategy(name, CANDIDATES, 3)


def test_a_seed_decides_the_random_order():
    orders = {tuple(t.setting for t in run(drawn(CANDIDATES, seed, 12))) for seed in range(5)}
    assert len(orders) == 5
    assert all(len(order) == 12 for order in orders)


@pytest.mark.parametrize("name", [RANDOM, BAYES])
def test_more_are_tried_where_settings_of_the_pull_are_axes_too(name):
    joint = tuple(
        dataclasses.replace(setting, transfer=(("io_chunksize", size),))
        for setting in CANDIDATES
        for size in (2**18, 2**20)
    )
    assert make_strategy(name, joint, 0).remaining(of([])) == 24
    assert make_strategy(name, CANDIDATES, 0).remaining(of([])) == 12
    assert make_strategy(name, joint[:5], 0).remaining(of([])) == 5


@pytest.mark.parametrize("name", [RANDOM, BAYES])
def test_the_largest_seed_that_the_command_line_takes_serves(name):
    assert make_strategy(name, CANDIDATES, 2**31 - 1).next_setting(of([])) in CANDIDATES


def test_bayes_is_nearer_to_the_best_than_chance():
    """Over ten seeds: TPE's mean best of 15 trials against that of random draws."""

    def mean_best(make):
        bests = [min(t.valid.return_s for t in run(make(seed))) for seed in range(10)]
        return sum(bests) / len(bests)

    bayes = mean_best(lambda seed: BayesSearch(CANDIDATES, tpe.propose, seed, 15))
    chance = mean_best(lambda seed: drawn(CANDIDATES, seed, 15))
    assert bayes < chance


def test_bayes_takes_sysctls_and_settings_of_the_pull():
    transfers = [(("max_concurrency", 10), ("io_chunksize", size)) for size in (2**18, 2**20)]
    grid, _ = build_grid({"vm.dirty_ratio": (40, 60)}, NOW, 4 * GIB, transfers)
    tried = run(BayesSearch(grid, tpe.propose, 0, 16), seconds=lambda setting: 5.0)
    assert {t.setting for t in tried} == set(grid)


@pytest.mark.parametrize(("name", "library"), [(BAYES, "Optuna"), (SYNE_TUNE, "Syne Tune")])
def test_without_its_library_the_install_command_is_named(name, library, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RequirementError, match=f"needs {library}") as error:
        make_strategy(name, CANDIDATES, 0)
    assert f"tools/setup {name}" in error.value.hint


def test_a_syne_tune_of_another_interface_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "syne_tune", None)
    propose = importlib.import_module("sysctl.search.bore").propose
    with pytest.raises(RequirementError, match="the installed Syne Tune cannot be used"):
        next(propose({"a": 3}, [], 0))


def test_optuna_is_not_imported_before_it_is_needed():
    code = "import sys, sysctl.search.strategies; assert not {'optuna', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_was_found_is_of_the_runs_before_any_pair():
    study = Study().candidate(CANDIDATES[0], 5.0)
    before = study.runs.trials
    study.recheck(CANDIDATES[0], [5.0, 5.1]).add(PRICE, CANDIDATES[0], 5.0)
    assert study.runs.search.trials == before


# --- the grid -----------------------------------------------------------------------------------


def test_candidates_go_from_the_smallest_threshold_to_the_largest():
    values = {"vm.dirty_ratio": (80, 40), "vm.dirty_background_ratio": (10, 5)}
    grid, _ = build_grid(values, NOW, GIB)
    order = [tuple(setting.values.values()) for setting in grid]
    assert order == [(40, 5), (40, 10), (80, 5), (80, 10)]
    assert [t.setting for t in run(make_strategy(GRID, grid, 0))] == list(grid)


def test_pairs_that_the_kernel_would_halve_are_left_out_with_the_reason():
    values = {"vm.dirty_ratio": (5, 40), "vm.dirty_background_ratio": (5, 10)}
    transfers = [(("max_concurrency", number),) for number in (10, 20)]
    grid, left_out = build_grid(values, NOW, GIB, transfers)
    assert len(grid) == 4
    assert [item.what for item in left_out] == [
        "dirty_ratio=5 dirty_background_ratio=5",
        "dirty_ratio=5 dirty_background_ratio=10",
    ]
    assert all("half of dirty" in item.why for item in left_out)


def test_bytes_are_compared_with_a_ratio_that_stays():
    grid, left_out = build_grid({"vm.dirty_bytes": (2**20, GIB)}, NOW, 4 * GIB)
    assert [setting.values for setting in grid] == [{"vm.dirty_bytes": GIB}]
    assert len(left_out) == 1


def test_a_grid_combines_thresholds_with_settings_of_the_pull():
    transfers = [(("io_chunksize", size),) for size in (2**18, 2**20)]
    grid, _ = build_grid({"vm.dirty_ratio": (40, 60)}, NOW, 4 * GIB, transfers)
    assert [(s.values["vm.dirty_ratio"], s.transfer) for s in grid] == [
        (ratio, transfer) for ratio in (40, 60) for transfer in transfers
    ]


def test_without_thresholds_the_settings_of_the_pull_alone_are_combined():
    transfers = [(("io_chunksize", size),) for size in (2**18, 2**20)]
    grid, left_out = build_grid({}, NOW, 4 * GIB, transfers)
    assert ([(s.sysctls, s.transfer) for s in grid], left_out) == (
        [((), transfer) for transfer in transfers],
        [],
    )
