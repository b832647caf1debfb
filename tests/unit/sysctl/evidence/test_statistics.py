# SPDX-License-Identifier: Apache-2.0
"""Noise and intervals: against SciPy and tables, their coverage, and at their edges."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest
from scipy.special import stdtrit
from scipy.stats import binom, f_oneway, ttest_ind

from sysctl.evidence.statistics import (
    Noise,
    confidence_of_each,
    order_statistics,
    paired_interval,
    pooled_noise,
    ratio_interval,
    student_quantile,
)


@pytest.mark.parametrize("degrees", [*range(1, 31), 100, 1001])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.999, 1 - 1e-5])
def test_students_quantile_is_scipys(degrees, confidence):
    expected = float(stdtrit(degrees, (1 + confidence) / 2))
    assert student_quantile(degrees, confidence) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("comparisons", [1, 3, 8, 40, 1000])
def test_a_bootstrap_of_the_median_is_never_wider_than_the_order_statistics(comparisons):
    """So none is needed. With `below` of `count` ratios below the lower order statistic, a resample
    has its median there only if half of its values, each with probability below / count, are.
    """
    confidence = confidence_of_each(comparisons)
    served = [count for count in range(2, 200) if order_statistics(range(count), confidence)]
    assert len(served) > 170
    for count in served:
        below, _ = order_statistics(range(count), confidence)
        chance = binom.sf((count + 1) // 2 - 1, count, below / count)
        assert chance <= (1 - confidence) / 2, (count, below)


def test_an_interval_needs_neither_scipy_nor_numpy():
    code = """
import sys
from sysctl.evidence.statistics import paired_interval, pooled_noise, ratio_interval
for count in (3, 8):
    ratios = [0.5 + number / 100 for number in range(count)]
    ratio_interval(ratios)
    paired_interval(ratios, pooled_noise([ratios, ratios]))
assert not {"scipy", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_students_interval_is_that_of_the_tables():
    """Two ratios: t(0.975, 1) = 12.706 times the half difference of the logarithms."""
    interval = ratio_interval([0.5, 0.6])
    centre, half = (math.log(0.5) + math.log(0.6)) / 2, (math.log(0.6) - math.log(0.5)) / 2
    assert interval.low == pytest.approx(math.exp(centre - 12.7062 * half), rel=1e-4)
    assert interval.high == pytest.approx(math.exp(centre + 12.7062 * half), rel=1e-4)
    assert (interval.estimate, interval.count) == (0.55, 2)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_students_interval_covers_the_truth_in_95_of_100(count):
    assert covered(count) == pytest.approx(0.95, abs=0.035)


@pytest.mark.parametrize("count", [6, 7, 8, 12, 20])
def test_from_six_on_the_interval_covers_the_truth_in_95_of_100(count):
    """The bootstrap alone: 86 of 100 with 7 ratios, 92 with 8 and with 20."""
    assert covered(count) >= 0.93


@pytest.mark.parametrize(("count", "ranks"), [(6, (0, 5)), (8, (0, 7)), (9, (1, 7)), (20, (5, 14))])
def test_the_order_statistics_are_those_of_the_sign_test(count, ranks):
    """Tables of the sign test: two-sided 5 % leaves 0 of 6 and of 8, 1 of 9 and 5 of 20."""
    ratios = [1.0 + rank / 100 for rank in range(count)]
    assert order_statistics(ratios[::-1]) == (ratios[ranks[0]], ratios[ranks[1]])


def test_more_confidence_needs_more_ratios_for_order_statistics():
    """The extremes of 8 hold the median with 1 - 2/2^8 = 99.2 %, those of 7 with 98.4 %."""
    ratios = [0.5 + number / 100 for number in range(8)]
    assert order_statistics(ratios, 0.99) == (ratios[0], ratios[-1])
    assert order_statistics(ratios[:7], 0.99) is None
    assert order_statistics(ratios[:5]) is None


@pytest.mark.parametrize("count", [3, 8])
def test_more_confidence_widens_the_interval(count):
    ratios = [0.5 + number / 100 for number in range(count)]
    usual, wide = ratio_interval(ratios), ratio_interval(ratios, confidence_of_each(9))
    assert wide.low <= usual.low and wide.high >= usual.high
    assert wide.estimate == usual.estimate


def test_a_wider_interval_of_few_ratios_is_that_of_the_tables():
    """Two ratios: t(0.995, 1) = 63.657 times the half difference of the logarithms."""
    centre, half = (math.log(0.5) + math.log(0.6)) / 2, (math.log(0.6) - math.log(0.5)) / 2
    wide = ratio_interval([0.5, 0.6], 0.99)
    assert wide.high == pytest.approx(math.exp(centre + 63.657 * half), rel=1e-4)


def test_errors_of_several_comparisons_add_up_to_that_of_one():
    assert confidence_of_each(1) == confidence_of_each(0) == pytest.approx(0.95)
    assert confidence_of_each(10) == pytest.approx(0.995)


def covered(count, repeats=400):
    """How often the interval holds the true ratio 0.5, for a noise of 5 %, seeded."""
    draw = random.Random(count)
    intervals = (
        ratio_interval([0.5 * math.exp(draw.gauss(0, 0.05)) for _ in range(count)])
        for _ in range(repeats)
    )
    return sum(interval.includes(0.5) for interval in intervals) / repeats


@pytest.mark.parametrize("count", range(2, 12))
def test_the_estimate_is_within_its_interval_and_it_is_the_same_each_time(count):
    draw = random.Random(count)
    ratios = [draw.lognormvariate(0, 0.3) for _ in range(count)]
    interval = ratio_interval(ratios)
    assert interval.low <= interval.estimate <= interval.high
    assert interval == ratio_interval(list(ratios))


def test_one_disturbed_pair_of_many_hardly_moves_the_interval():
    calm = ratio_interval([0.50, 0.51, 0.49, 0.50, 0.52, 0.48, 0.50, 0.49, 0.51])
    disturbed = ratio_interval([0.50, 0.51, 0.49, 0.50, 0.52, 0.48, 0.50, 0.49, 5.0])
    assert disturbed.high < 1
    assert disturbed.estimate == pytest.approx(calm.estimate, rel=0.02)


def test_a_single_ratio_rules_nothing_out():
    interval = ratio_interval([0.2])
    assert (interval.low, interval.high) == (0.0, math.inf)
    assert interval.includes(1.0)


@pytest.mark.parametrize("count", [3, 7])
def test_equal_ratios_have_an_interval_of_no_width(count):
    interval = ratio_interval([0.25] * count)
    assert interval.low == pytest.approx(0.25)
    assert interval.high == pytest.approx(0.25)


def test_ratios_that_differ_beyond_reason_have_a_finite_interval():
    interval = ratio_interval([1e-9, 1e9])
    assert 0 < interval.low < interval.high < math.inf


@pytest.mark.parametrize("ratios", [[], [0.0], [-1.0], [math.inf], [math.nan]])
def test_an_invalid_ratio_is_refused(ratios):
    with pytest.raises(ValueError, match="ratio is needed"):
        ratio_interval(ratios)
    with pytest.raises(ValueError, match="ratio is needed"):
        paired_interval(ratios, Noise(0.02, 4))


# --- one noise for all runs of two settings -------------------------------------------------------


def drawn(draw, centre, count, deviation=0.05):
    """Times that scatter around a centre; of their logarithms `deviation` is the standard one."""
    return [centre * math.exp(draw.gauss(0, deviation)) for _ in range(count)]


@pytest.mark.parametrize("counts", [(2, 2), (3, 5), (4, 4, 4)])
def test_the_pooled_noise_is_the_residual_of_scipys_analysis_of_variance(counts):
    """F is the variance between the groups' means divided by the one within the groups."""
    draw = random.Random(sum(counts))
    groups = [drawn(draw, 2.0**at, count) for at, count in enumerate(counts)]
    logs = [[math.log(time) for time in group] for group in groups]
    noise, means = pooled_noise(groups), [sum(group) / len(group) for group in logs]
    whole = sum(map(sum, logs)) / sum(counts)
    between = sum(n * (mean - whole) ** 2 for n, mean in zip(counts, means)) / (len(counts) - 1)
    assert noise.degrees == sum(counts) - len(counts)
    assert noise.deviation**2 == pytest.approx(between / f_oneway(*logs).statistic, rel=1e-9)


@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("confidence", [0.95, 1 - 0.0158, 0.999])
def test_the_interval_of_as_many_runs_of_each_is_scipys_t_interval(count, confidence):
    """With the noise of those very runs, Student's interval of two means with one variance."""
    draw = random.Random(count)
    before, after = drawn(draw, 20.0, count), drawn(draw, 10.0, count)
    ratios = [b / a for a, b in zip(before, after)]
    found = paired_interval(ratios, pooled_noise([before, after]), confidence)
    logs = [[math.log(time) for time in times] for times in (after, before)]
    expected = ttest_ind(*logs).confidence_interval(confidence)
    assert math.log(found.low) == pytest.approx(expected.low, rel=1e-8)
    assert math.log(found.high) == pytest.approx(expected.high, rel=1e-8)
    assert found.estimate == pytest.approx(math.sqrt(found.low * found.high))
    assert found.count == count


@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("confidence", [0.95, 1 - 0.0158])
def test_the_interval_covers_the_truth_as_often_as_it_says(count, confidence):
    """Of 4,000 comparisons at 95 % the share that holds varies by 0.35 % (a standard deviation)."""
    draw, hits = random.Random(count), 0
    for _ in range(4000):
        before, after = drawn(draw, 20.0, count), drawn(draw, 10.0, count)
        ratios = [b / a for a, b in zip(before, after)]
        found = paired_interval(ratios, pooled_noise([before, after]), confidence)
        hits += found.includes(0.5)
    assert hits / 4000 == pytest.approx(confidence, abs=0.012)


def test_drift_between_blocks_widens_the_interval_without_moving_it():
    """It is common to both runs of a pair, but the pooled noise takes it for noise."""
    steps = (1.0, 1.1, 1.21)
    before, after = [20.0 * step for step in steps], [10.0 * step for step in steps]
    found = paired_interval([0.5] * 3, pooled_noise([before, after]))
    assert found.estimate == pytest.approx(0.5)
    assert found.low < 0.45 and found.high > 0.55


def test_other_runs_of_the_same_settings_give_the_noise_of_a_single_pair():
    noise = pooled_noise([[20.0, 20.4, 20.2], [10.0, 10.1]])
    assert noise.degrees == 3
    found = paired_interval([0.5], noise)
    assert 0.45 < found.low < 0.5 < found.high < 0.55


@pytest.mark.parametrize("groups", [[], [[]], [[20.0], [10.0]]])
def test_without_a_repeated_run_the_noise_is_not_known_and_nothing_is_ruled_out(groups):
    noise = pooled_noise(groups)
    assert noise == Noise(0.0, 0)
    found = paired_interval([0.01, 0.01], noise)
    assert (found.estimate, found.low, found.high) == (pytest.approx(0.01), 0.0, math.inf)


def test_noise_beyond_reason_leaves_a_finite_interval():
    found = paired_interval([1e-9, 1e9], pooled_noise([[1e-6, 1e9], [1e9, 1e-6]]))
    assert 0 < found.low < found.high < math.inf
