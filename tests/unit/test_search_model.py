"""The model's search on a host whose true times are known, and are as predicted."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest

from sysctl.results import CANDIDATE, PRESENT, Trial
from sysctl.search.grid import build_grid, untried
from sysctl.search.model import MAX_TRIALS, ModelSearch
from tests.unit import predictions
from tests.unit.predictions import setting, stopped_at_the_set_point
from tests.unit.sweeps import CONTEXT, GIB
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

observed = partial(predictions.observed, control=stopped_at_the_set_point)
results = partial(predictions.results, control=stopped_at_the_set_point)
true_course = partial(predictions.true_course, control=stopped_at_the_set_point)
SPACE = {
    "vm.dirty_ratio": (10, 20, 30, 40, 50, 60, 70, 80),
    "vm.dirty_background_ratio": (1, 2, 5, 10, 15, 20, 30, 40),
}
CANDIDATES = build_grid(SPACE, (), PRESENT_SETTING, 4 * GIB)[0].candidates
KNOWN = {**CONTEXT, "workers": 2}


def search(candidates=CANDIDATES, start=None, measure=observed):
    """Search to the end; the trials of the search in order."""
    strategy, done = ModelSearch(candidates, KNOWN), list((start or results()).trials)
    first = len(done)
    while (chosen := strategy.next_setting(done)) is not None:
        assert chosen in untried(candidates, done)
        done.append(Trial(CANDIDATE, chosen, "", measure(chosen)))
        assert strategy.remaining(done) <= MAX_TRIALS - len(done) + first
    assert strategy.remaining(done) == 0
    return done[first:]


def true_s(chosen):
    return true_course(chosen.values).return_s


def test_the_best_is_found_in_few_trials():
    trials = search()
    best_s = min(map(true_s, CANDIDATES))
    assert len(trials) <= MAX_TRIALS < len(CANDIDATES) / 8
    assert true_s(trials[0].setting) <= 1.05 * best_s
    assert min(true_s(trial.setting) for trial in trials) <= 1.02 * best_s


def test_the_cheapest_of_the_fast_is_tried_first():
    first = search()[0].setting
    good = [each for each in CANDIDATES if true_s(each) <= 1.005 * min(map(true_s, CANDIDATES))]
    assert first.values["vm.dirty_ratio"] <= min(each.values["vm.dirty_ratio"] for each in good)


@pytest.mark.parametrize("seed", range(5))
def test_a_model_that_is_wrong_is_corrected(seed):
    """Below 70 % the true times are twice what any model would say, and all times are noisy."""
    draw = random.Random(seed)

    def measure(chosen):
        seen = observed(chosen, trace=False)
        factor = 1.0 if chosen.values["vm.dirty_ratio"] >= 70 else 2.0
        slower = {"return_s": seen.return_s * factor * draw.uniform(1, 1.03)}
        if factor > 1:
            slower["stall_share"] = 0.5
        return replace(seen, **slower)

    tried = {trial.setting.values["vm.dirty_ratio"] for trial in search(measure=measure)}
    assert max(tried) >= 70


def measured_with_a_wait(stall_share):
    """A tenth slower than any model would say: too little for it to be doubted."""

    def measure(chosen):
        seen = observed(chosen)
        return replace(seen, return_s=seen.return_s * 1.1, stall_share=stall_share)

    return measure


def test_where_writers_waited_under_all_that_was_tried_the_last_trial_is_of_the_largest():
    trials = search(measure=measured_with_a_wait(0.05))
    assert trials[-1].setting == CANDIDATES[-1]
    assert len(trials) <= MAX_TRIALS
    without = search(measure=measured_with_a_wait(0.0))
    assert len(without) < MAX_TRIALS
    assert CANDIDATES[-1] not in {trial.setting for trial in without}


def test_a_search_that_is_resumed_goes_on_as_it_would_have():
    whole, strategy = search(), ModelSearch(CANDIDATES, KNOWN)
    for known in range(len(whole)):
        done = [*results().trials, *whole[:known]]
        assert strategy.next_setting(done) == whole[known].setting


def test_a_trial_that_failed_or_was_stopped_is_not_proposed_again():
    start, strategy = results(), ModelSearch(CANDIDATES, KNOWN)
    first = strategy.next_setting(start.trials)
    for ended in (
        Trial(CANDIDATE, first, "", None, problem="the pull failed"),
        Trial(CANDIDATE, first, "", None, stopped_s=40.0),
    ):
        assert strategy.next_setting([*start.trials, ended]) not in (None, first)


def test_without_a_model_the_space_is_spread_over():
    blind = results(runs=((False, False),))
    trials = search(start=blind)
    assert len(trials) == MAX_TRIALS
    assert trials[0].setting == CANDIDATES[-1]
    assert len({trial.setting.values["vm.dirty_ratio"] for trial in trials}) >= 4


def test_mount_options_are_neighbours_at_the_best_sysctls():
    texts = ("defaults", "noatime")
    grid, _ = build_grid(SPACE, texts, PRESENT_SETTING, 4 * GIB)
    tried = [trial.setting for trial in search(candidates=grid.candidates)]
    of_first = {each.mount_options for each in tried if each.sysctls == tried[0].sysctls}
    assert of_first == set(texts)


def test_where_nothing_can_be_gained_little_is_tried():
    fast = results(present=setting(80, 40))
    assert [trial.role for trial in fast.trials] == [PRESENT, PRESENT]
    assert len(search(start=fast)) <= MAX_TRIALS
