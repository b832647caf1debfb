# SPDX-License-Identifier: Apache-2.0
"""Statistics of repeated measurements: median and range, noise, the interval of a ratio.

Only the standard library is used, because SciPy and NumPy take 259 MB. Tests compare with SciPy.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
#: exp() overflows at 709.
_LARGEST_LOG = 100.0


@dataclass(frozen=True)
class Repeats:
    """Median, minimum and maximum of repeated measurements, in their unit."""

    median: float
    smallest: float
    largest: float
    count: int


def summarize(values: Sequence[float]) -> Repeats:
    """Summarize one measurement or more. Raises ValueError without any."""
    if not values:
        raise ValueError("no measurement to summarize")
    return Repeats(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Interval:
    """A ratio estimated from `count` pairs, with its confidence interval (95 % by default).

    `high` is infinite if the noise is unknown.
    """

    estimate: float
    low: float
    high: float
    count: int

    def includes(self, ratio: float) -> bool:
        """Return whether `ratio` is in the interval."""
        return self.low <= ratio <= self.high


def confidence_of_each(comparisons: int) -> float:
    """Return the confidence of each interval with which all together hold with `CONFIDENCE`.

    Bonferroni's inequality; it does not require independence.
    """
    return 1 - (1 - CONFIDENCE) / max(1, comparisons)


def ratio_interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the median of paired ratios and its interval with `confidence`.

    With enough ratios (6 for 95 %) the interval is that of the sign test: two order statistics, by
    the binomial distribution, without an assumption on the shape. (A bootstrap of the median is
    never wider, and covers only 86 % with 7 ratios.) With fewer ratios it is Student's t of the
    logarithms, and never narrower than with 95 %.
    Raises ValueError without a ratio, or if one is not positive and finite.
    """
    if not ratios or not all(0 < ratio < math.inf for ratio in ratios):
        raise ValueError("at least one ratio is needed, and all must be positive and finite")
    low, high = _bounds(ratios, confidence)
    return Interval(statistics.median(ratios), low, high, len(ratios))


def _bounds(ratios: Sequence[float], confidence: float) -> tuple[float, float]:
    if len(ratios) == 1:
        return 0.0, math.inf
    if ends := order_statistics(ratios, confidence):
        return ends
    low, high = _student(ratios, confidence)
    # too few ratios for order statistics: at least as wide as with less confidence
    least, most = order_statistics(ratios) or (low, high)
    return min(low, least), max(high, most)


def order_statistics(
    ratios: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Return the innermost two of the sorted ratios that enclose the median with `confidence`.

    None if there are too few: the extremes of 5 ratios enclose it with 93.8 %, of 6 with 96.9 %.
    """
    count, outside, rank = len(ratios), 1, 0
    while outside / 2**count <= (1 - confidence) / 2:
        rank += 1
        outside += math.comb(count, rank)
    if rank == 0:
        return None
    ranked = sorted(ratios)
    return ranked[rank - 1], ranked[count - rank]


def _student(ratios: Sequence[float], confidence: float) -> tuple[float, float]:
    logs = [math.log(ratio) for ratio in ratios]
    centre, deviation = statistics.fmean(logs), statistics.stdev(logs)
    quantile = student_quantile(len(logs) - 1, confidence)
    reach = min(quantile * deviation / math.sqrt(len(logs)), _LARGEST_LOG)
    return math.exp(centre - reach), math.exp(centre + reach)


@functools.cache
def student_quantile(degrees: int, confidence: float) -> float:
    """Return t such that Student's variable is within ±t with probability `confidence`.

    `degrees` of freedom are at least 1; `confidence` is between 0 and 1. The probability increases
    with the angle atan(t / √degrees), which is found by bisection.
    """
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _student_within(degrees, middle) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(high)


def _student_within(degrees: int, angle: float) -> float:
    """Return the probability of ±t, t = √degrees · tan(angle).

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 (odd) and 26.7.4 (even).
    """
    odd = degrees % 2
    total, term = 0.0, math.cos(angle) if odd else 1.0
    for power in range(2 + odd, degrees + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (power - 1) / power
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total


@dataclass(frozen=True)
class Noise:
    """The scatter of runs under the same settings.

    `deviation` is the standard deviation of the logarithm of the time (0.03 is 3 %), estimated with
    `degrees` of freedom; with 0 degrees it is unknown.
    """

    deviation: float
    degrees: int


def pooled_noise(groups: Iterable[Sequence[float]]) -> Noise:
    """Return the pooled noise of groups of times; each group is from one setting's runs."""
    squares, degrees = 0.0, 0
    for times in groups:
        if len(times) > 1:
            logs = [math.log(time) for time in times]
            squares += statistics.variance(logs) * (len(logs) - 1)
            degrees += len(logs) - 1
    return Noise(math.sqrt(squares / degrees) if degrees else 0.0, degrees)


def paired_interval(
    ratios: Sequence[float], noise: Noise, confidence: float = CONFIDENCE
) -> Interval:
    """Return the geometric mean of paired ratios and its confidence interval.

    The logarithm of a ratio of two runs has twice the variance of one run's. Student's t has the
    degrees of freedom of the noise, so two pairs are enough if the noise is known from more runs.
    Raises ValueError without a ratio, or if one is not positive and finite.
    """
    if not ratios or not all(0 < ratio < math.inf for ratio in ratios):
        raise ValueError("at least one ratio is needed, and all must be positive and finite")
    centre = statistics.fmean(math.log(ratio) for ratio in ratios)
    if not noise.degrees:
        return Interval(math.exp(centre), 0.0, math.inf, len(ratios))
    error = noise.deviation * math.sqrt(2 / len(ratios))
    reach = min(student_quantile(noise.degrees, confidence) * error, _LARGEST_LOG)
    low, high = math.exp(centre - reach), math.exp(centre + reach)
    return Interval(math.exp(centre), low, high, len(ratios))
