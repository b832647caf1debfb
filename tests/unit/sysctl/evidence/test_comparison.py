# SPDX-License-Identifier: Apache-2.0
"""Pairs of runs: which runs count, how much they scatter, and when one setting is faster."""

from __future__ import annotations

import math
import random

import pytest

from sysctl.evidence.comparison import (
    LOOK_ERROR,
    MAX_PAIRS,
    MIN_PAIRS,
    Verdict,
    compare,
    error_of_each,
    error_of_looks,
    is_gain,
    noise_of,
    noise_of_pairs,
    pairs_of,
)
from sysctl.evidence.runs import CPU_WAIT_SLACK
from sysctl.evidence.statistics import Noise, student_quantile
from tests.unit.studies import Study, ratio
from tests.unit.sweeps import PRESENT

CHEAP, DEAR = ratio(60), ratio(80)
#: The writers of a study: two workers.
WRITERS = 2


def times_of(pairs):
    return [(pair.present.return_s, pair.other.return_s) for pair in pairs]


def waiting(share, return_s):
    """Fields of a run whose writers waited for a CPU for that share of their time."""
    return {"split_s": {"waiting for a CPU": share * return_s * WRITERS}}


# --- which runs are pairs -------------------------------------------------------------------------


def test_a_pair_is_of_one_block():
    study = Study().candidate(CHEAP, 9.0)
    study.block({PRESENT: 20.0, CHEAP: 10.0}).block({CHEAP: 11.0, PRESENT: 22.0})
    assert times_of(pairs_of(study.runs, CHEAP)) == [(20.0, 10.0), (22.0, 11.0)]


def test_any_two_settings_of_a_block_are_a_pair():
    study = Study().block({PRESENT: 20.0, CHEAP: 10.0, DEAR: 8.0}).block({DEAR: 8.4, CHEAP: 10.2})
    assert times_of(pairs_of(study.runs, DEAR, CHEAP)) == [(10.0, 8.0), (10.2, 8.4)]
    assert times_of(pairs_of(study.runs, CHEAP, DEAR)) == [(8.0, 10.0), (8.4, 10.2)]
    assert len(pairs_of(study.runs, DEAR)) == 1, "the present settings ran in one of them"


def test_a_run_that_is_invalid_makes_no_pair_and_its_repetition_does():
    study = Study().add("present", PRESENT, 20.0, 0).add("recheck", CHEAP, 0.0, 0, "made up")
    assert pairs_of(study.runs, CHEAP) == []
    study.add("recheck", CHEAP, 10.0, 0)
    assert times_of(pairs_of(study.runs, CHEAP)) == [(20.0, 10.0)]


# --- runs that were short of CPU time -------------------------------------------------------------


def test_the_cpu_wait_is_a_share_of_the_time_that_the_writers_had():
    study = Study(**waiting(0.25, 20.0))
    run = study.results.trials[0].valid
    assert study.runs.cpu_wait_share(run) == pytest.approx(0.25)
    study.add("present", PRESENT, 20.0, writers=4, **waiting(0.25, 20.0))
    assert study.runs.cpu_wait_share(study.results.trials[-1].valid) == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("share", "starves"),
    [(0.01 + CPU_WAIT_SLACK * 0.99, False), (0.01 + CPU_WAIT_SLACK * 1.01, True)],
)
def test_a_run_that_waited_more_than_another_of_the_same_setting_is_starved(share, starves):
    study = Study().candidate(CHEAP, 10.0, **waiting(share, 10.0))
    assert not study.runs.is_starved(study.results.trials[-1]), "of one run nothing is known"
    study.candidate(DEAR, 10.0, **waiting(0.0, 10.0))
    study.candidate(CHEAP, 10.0, **waiting(0.01, 10.0))
    first, _, last = study.results.trials[-3:]
    assert study.runs.is_starved(first) is starves
    assert not study.runs.is_starved(last)


def test_a_setting_whose_runs_all_wait_for_a_cpu_is_not_starved():
    study = Study(**waiting(0.4, 20.0))
    assert [study.runs.is_starved(trial) for trial in study.results.trials] == [False, False]


def test_the_price_run_shows_what_is_usual_too():
    study = Study(present_s=()).price(CHEAP, 10.0, 30.0, **waiting(0.0, 10.0))
    study.candidate(CHEAP, 13.0, **waiting(0.1, 13.0))
    assert study.runs.is_starved(study.results.trials[-1])


def test_an_invalid_run_is_neither_starved_nor_the_measure_of_others():
    study = Study().candidate(CHEAP, 10.0, **waiting(0.1, 10.0)).candidate(CHEAP, 0.0, problem="x")
    assert [study.runs.is_starved(trial) for trial in study.results.trials[-2:]] == [False] * 2


def test_a_starved_run_is_in_no_pair_and_in_no_noise():
    study = Study().recheck(CHEAP, [13.0], **waiting(0.1, 13.0))
    study.recheck(CHEAP, [10.0, 10.0], **waiting(0.01, 10.0))
    assert times_of(pairs_of(study.runs, CHEAP)) == [(20.0, 10.0)] * 2
    assert noise_of(study.runs, [CHEAP]).deviation == 0.0


# --- noise ----------------------------------------------------------------------------------------


def test_from_three_pairs_the_noise_comes_from_the_runs_in_blocks():
    """A host that became slower after the search is not a noisy one."""
    study = Study(present_s=(10.0, 10.0)).candidate(CHEAP, 5.0)
    study.recheck(CHEAP, [10.0, 10.0])
    few = noise_of(study.runs, [PRESENT, CHEAP])
    study.recheck(CHEAP, [10.0])
    enough = noise_of(study.runs, [PRESENT, CHEAP])
    assert (few.degrees, enough.degrees) == (3 + 2, 2 + 2)
    assert few.deviation > 0.3
    assert enough.deviation == 0.0


def test_a_run_without_its_counterpart_still_counts_for_the_noise():
    study = Study().recheck(CHEAP, [10.0, 10.0, 10.0]).add("recheck", CHEAP, 12.0, pair=9)
    noise = noise_of(study.runs, [PRESENT, CHEAP])
    assert noise.degrees == 2 + 3
    assert noise.deviation > 0.02


def test_a_price_run_counts_for_neither_the_noise_nor_the_ratio():
    study = Study().recheck(CHEAP, [10.0, 10.0, 10.0])
    before = compare(study.runs, CHEAP)
    study.price(PRESENT, 40.0, 60.0).price(CHEAP, 30.0, 60.0)
    assert compare(study.runs, CHEAP) == before
    assert noise_of_pairs(study.runs) == before.noise


def test_the_reported_noise_comes_from_all_settings_in_pairs():
    study = Study().recheck(CHEAP, [10.0, 10.0, 10.0]).recheck(DEAR, [5.0, 5.0, 6.0])
    assert noise_of_pairs(study.runs).degrees == 5 + 2 + 2
    assert noise_of_pairs(study.runs).deviation < compare(study.runs, DEAR).noise.deviation


def test_single_runs_give_no_noise():
    assert noise_of_pairs(Study(present_s=(20.0,)).runs) == Noise(0.0, 0)


# --- the comparison -------------------------------------------------------------------------------

#: Times of a setting next to present runs of 20 s, so that noise comes from both.
CALM, WILD = (20.0, 20.2, 19.8), (20.0, 24.0, 16.0)


def compared(ratio_of_times, present_s=CALM, **options):
    study = Study(present_s=()).recheck(CHEAP, [ratio_of_times * s for s in present_s], present_s)
    return compare(study.runs, CHEAP, **options)


@pytest.mark.parametrize(
    ("ratio_of_times", "present_s", "verdict"),
    [
        (0.5, CALM, Verdict.FASTER),
        (0.94, CALM, Verdict.FASTER),
        (0.96, CALM, Verdict.SAME),
        (1.0, CALM, Verdict.SAME),
        (1.02, CALM, Verdict.SAME),
        (1.5, CALM, Verdict.SLOWER),
        (0.5, WILD, Verdict.FASTER),
        (0.8, WILD, Verdict.SAME),
        (1.2, WILD, Verdict.SAME),
    ],
)
def test_a_gain_counts_from_five_percent_if_it_exceeds_the_noise(
    ratio_of_times, present_s, verdict
):
    found = compared(ratio_of_times, present_s)
    assert found.verdict is verdict
    assert found.interval.estimate == pytest.approx(ratio_of_times)


def test_the_ratio_is_the_geometric_mean_of_the_pairs():
    study = Study().recheck(CHEAP, [5.0, 20.0], [20.0, 20.0])
    assert compare(study.runs, CHEAP).interval.estimate == pytest.approx(0.5)


def test_a_drift_from_block_to_block_moves_no_ratio():
    drift = [20.0, 30.0, 45.0]
    assert compared(0.9, drift).interval.estimate == pytest.approx(0.9)


def test_a_gain_is_decided_by_a_stricter_interval_than_the_one_reported():
    """Here the 95 % interval excludes 1, and the one for a look at the pairs does not."""
    present_s = (20.0, 20.8, 19.2)
    found = compared(0.91, present_s)
    assert found.interval.high < 1
    assert found.verdict is Verdict.SAME
    assert compared(0.91, present_s, error=0.05).verdict is Verdict.FASTER
    assert compared(0.91, present_s, error=0.05).interval == found.interval


def test_a_slower_setting_is_reported_at_the_reported_confidence():
    present_s = (20.0, 20.8, 19.2)
    assert compared(1.1, present_s).verdict is Verdict.SLOWER
    assert compared(1.1, present_s, error=1e-6).verdict is Verdict.SLOWER


@pytest.mark.parametrize("count", range(3))
def test_fewer_than_two_pairs_give_no_comparison(count):
    study = Study().candidate(CHEAP, 5.0).recheck(CHEAP, [5.0] * count)
    found = compare(study.runs, CHEAP)
    assert (found.verdict is Verdict.UNKNOWN) is (count < MIN_PAIRS)
    assert (found.interval is None) is (count == 0)


def test_two_settings_are_compared_by_the_blocks_that_both_ran_in():
    study = Study()
    for factor in (1.0, 1.1, 0.9):
        study.block({PRESENT: 20.0 * factor, CHEAP: 10.0 * factor, DEAR: 8.0 * factor})
    study.recheck(DEAR, [16.0], [20.0])
    assert compare(study.runs, DEAR, CHEAP).interval.estimate == pytest.approx(0.8)
    assert compare(study.runs, CHEAP, DEAR).interval.estimate == pytest.approx(1.25)
    assert compare(study.runs, DEAR).interval.count == 4


@pytest.mark.parametrize(
    ("ratio_of_times", "is_one"), [(0.952, True), (0.953, False), (1.1, False)]
)
def test_a_gain_is_worth_a_change_from_five_percent_of_the_shorter_time(ratio_of_times, is_one):
    assert is_gain(ratio_of_times) is is_one


def test_finalists_share_the_error_of_a_look():
    assert error_of_each(0) == error_of_each(1) == LOOK_ERROR
    assert error_of_each(3) == pytest.approx(LOOK_ERROR / 3)


def test_looks_at_two_to_six_pairs_err_together_in_one_of_twenty():
    """Pocock's table is for five looks at equal steps; ours are after 2, 3, 4, 5 and 6 pairs."""
    reach = student_quantile(100_000, 1 - LOOK_ERROR)
    draw, errors, repeats = random.Random(1), 0, 20_000
    for _ in range(repeats):
        total, is_error = 0.0, False
        for count in range(1, MAX_PAIRS + 1):
            total += draw.gauss(0, 1)
            is_error |= count >= MIN_PAIRS and abs(total) > reach * math.sqrt(count)
        errors += is_error
    assert 0.035 < errors / repeats <= 0.05


def test_the_recheck_looks_with_the_error_of_the_advice():
    """A rung that was given up for the next one has pairs, too: both count it."""
    study = Study().tried(CHEAP, 10.0).tried(DEAR, 9.0)
    assert error_of_looks(study.runs, [DEAR]) == error_of_looks(study.runs) == error_of_each(2)
    assert error_of_looks(Study().runs, [DEAR]) == error_of_each(1)
