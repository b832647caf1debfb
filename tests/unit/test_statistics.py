"""Intervals and the noise floor: against SciPy and tables, exact coverage, and at their edges."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest
from scipy.special import stdtrit
from scipy.stats import binom

from sysctl.statistics import (
    _order_statistics,
    confidence_of_each,
    noise_floor,
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
    served = [count for count in range(2, 200) if _order_statistics(range(count), confidence)]
    assert len(served) > 170
    for count in served:
        below, _ = _order_statistics(range(count), confidence)
        chance = binom.sf((count + 1) // 2 - 1, count, below / count)
        assert chance <= (1 - confidence) / 2, (count, below)


def test_an_interval_needs_neither_scipy_nor_numpy():
    code = """
import sys
from sysctl.statistics import ratio_interval
for count in (3, 8):
    ratio_interval([0.5 + number / 100 for number in range(count)])
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
    assert _order_statistics(ratios[::-1]) == (ratios[ranks[0]], ratios[ranks[1]])


def test_more_confidence_needs_more_ratios_for_order_statistics():
    """The extremes of 8 hold the median with 1 - 2/2^8 = 99.2 %, those of 7 with 98.4 %."""
    ratios = [0.5 + number / 100 for number in range(8)]
    assert _order_statistics(ratios, 0.99) == (ratios[0], ratios[-1])
    assert _order_statistics(ratios[:7], 0.99) is None
    assert _order_statistics(ratios[:5]) is None


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


def test_errors_of_several_comparisons_add_up_to_those_of_one():
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
def test_what_is_no_ratio_is_refused(ratios):
    with pytest.raises(ValueError, match="ratios"):
        ratio_interval(ratios)


@pytest.mark.parametrize(
    ("times", "floor"),
    [([], 0.0), ([7.0], 0.0), ([10.0, 11.0], 0.1), ([11.0, 10.0], 0.1), ([5.0] * 4, 0.0)],
)
def test_the_noise_floor_is_by_how_much_two_runs_differ(times, floor):
    assert noise_floor(times) == pytest.approx(floor)


def test_one_disturbed_run_of_many_does_not_make_the_noise_floor():
    assert noise_floor([10.0, 10.1, 9.9, 10.0, 10.1, 15.0]) < 0.03
