# SPDX-License-Identifier: Apache-2.0
"""The ratio of repeated measurements that were not made in pairs: before and after a change.

Runs of two days have nothing in common, so the interval is of all runs of both, and drift between
them counts as a difference. Within a sweep, settings are compared by pairs instead
(`sysctl.evidence.comparison`).
"""

from __future__ import annotations

import enum
import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.evidence.statistics import CONFIDENCE, student_quantile

#: More runs a side have n·m ratios and ranks that take too long; the mean of so many is normal.
_MOST_RANKED = 100


class Method(str, enum.Enum):
    """How an interval was computed."""

    RANKS = "Mann-Whitney"
    STUDENT = "Student's t of the logarithms"


@dataclass(frozen=True)
class UnpairedRatio:
    """The ratio after : before with its interval; `confidence` is that of the interval."""

    estimate: float
    low: float
    high: float
    confidence: float
    method: Method

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 1."""
        return not self.low <= 1 <= self.high


def unpaired_ratio(
    before: Sequence[float], after: Sequence[float], confidence: float = CONFIDENCE
) -> UnpairedRatio:
    """Return the ratio of two groups of at least 2 measurements each, and its interval.

    With enough measurements (4 and 4 for 95 %) it is the estimate of Hodges and Lehmann, the median
    of all ratios, with the interval of the test of Mann and Whitney, as benchstat uses it: two of
    the ratios, without an assumption on the shape. With fewer, or more than 100, it is Student's t
    of the logarithms, whose deviation is taken to be the same in both groups.
    Raises ValueError for too few measurements, or one that is not positive and finite.
    """
    if min(len(before), len(after)) < 2 or not all(0 < x < math.inf for x in (*before, *after)):
        raise ValueError("two positive and finite measurements of each side are needed")
    differences = _log_ratios(before), _log_ratios(after)
    if max(len(before), len(after)) <= _MOST_RANKED:
        rank = _rank(len(before), len(after), confidence)
        if rank:
            return _by_ranks(*differences, rank, confidence)
    return _by_student(*differences, confidence)


def _log_ratios(values: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values]


def _by_ranks(
    before: Sequence[float], after: Sequence[float], rank: int, confidence: float
) -> UnpairedRatio:
    shifts = sorted(late - early for late in after for early in before)
    middle, ends = statistics.median(shifts), (shifts[rank - 1], shifts[-rank])
    low, high = map(math.exp, ends)
    return UnpairedRatio(math.exp(middle), low, high, confidence, Method.RANKS)


@functools.cache
def _rank(before: int, after: int, confidence: float) -> int:
    """Return which of the sorted ratios, from both ends, enclose the true one; 0: too few.

    It is the largest k for which the statistic U of Mann and Whitney is below k with at most half
    of the error.
    """
    error = (1 - confidence) / 2
    counts = _counts(before, after)
    total, below = math.comb(before + after, before), 0
    for rank, count in enumerate(counts):
        below += count
        if below > error * total:
            return rank
    return 0


def _counts(before: int, after: int) -> list[int]:
    """Return in how many orders of the measurements U is 0, 1, 2, …, up to its middle.

    These are the coefficients of the Gaussian binomial coefficient: for each i from 1 to `before`
    the product of (1 − q^(after + i)) / (1 − q^i). Mann and Whitney, On a test of whether one of
    two random variables is stochastically larger than the other, Annals of Mathematical Statistics
    18 (1947).
    """
    length = before * after // 2 + 1
    counts = [1] + [0] * (length - 1)
    for step in range(1, before + 1):
        for place in range(length - 1, after + step - 1, -1):
            counts[place] -= counts[place - after - step]
        for place in range(step, length):
            counts[place] += counts[place - step]
    return counts


def _by_student(
    before: Sequence[float], after: Sequence[float], confidence: float
) -> UnpairedRatio:
    centre = statistics.fmean(after) - statistics.fmean(before)
    degrees = len(before) + len(after) - 2
    squares = sum(statistics.variance(each) * (len(each) - 1) for each in (before, after))
    error = math.sqrt(squares / degrees * (1 / len(before) + 1 / len(after)))
    # exp() overflows at 709
    reach = min(student_quantile(degrees, confidence) * error, 100.0)
    ends = math.exp(centre - reach), math.exp(centre + reach)
    return UnpairedRatio(math.exp(centre), *ends, confidence, Method.STUDENT)
