"""What repeated measurements say: a centre and a spread, noise, the interval of a ratio.

The standard library calculates: SciPy and NumPy take 259 MB. The tests compare with SciPy.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
#: exp() ends at 709.
_LARGEST_LOG = 100.0


@dataclass(frozen=True)
class Repeats:
    """Median, smallest and largest of repeated measurements, in the unit of the measurements."""

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
    """A ratio, estimated from `count` pairs, with its interval, of 95 % unless said.

    `high` is infinite where nothing is known of the noise.
    """

    estimate: float
    low: float
    high: float
    count: int

    def includes(self, ratio: float) -> bool:
        """Whether `ratio` cannot be ruled out."""
        return self.low <= ratio <= self.high


def confidence_of_each(comparisons: int) -> float:
    """With which each of so many intervals holds, so that all together do with `CONFIDENCE`.

    Bonferroni's inequality; it asks for no independence, as of clients compared with the same one.
    """
    return 1 - (1 - CONFIDENCE) / max(1, comparisons)


def ratio_interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the median of paired ratios and the interval that holds it with `confidence`.

    With enough ratios (6 for 95 %) these are the two order statistics that hold the median by the
    binomial distribution, the sign test's interval, which assumes no shape. The bootstrap of the
    median is never wider, and alone holds 86 % with 7 ratios. With fewer it is Student's t of the
    logarithms, and never narrower than with 95 %.
    Raises ValueError without any ratio, or for one that is not positive and finite.
    """
    if not ratios or not all(0 < ratio < math.inf for ratio in ratios):
        raise ValueError("ratios must be positive, and one or more")
    low, high = _bounds(ratios, confidence)
    return Interval(statistics.median(ratios), low, high, len(ratios))


def _bounds(ratios: Sequence[float], confidence: float) -> tuple[float, float]:
    if len(ratios) == 1:
        return 0.0, math.inf
    if ends := order_statistics(ratios, confidence):
        return ends
    low, high = _student(ratios, confidence)
    # more confidence than the order statistics serve for: at least as wide as with less
    least, most = order_statistics(ratios) or (low, high)
    return min(low, least), max(high, most)


def order_statistics(
    ratios: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """The innermost two of the sorted ratios that hold the median with `confidence`.

    None where the smallest and the largest do not: those of 5 hold it with 93.8 %, of 6 with 96.9.
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

    `degrees` of freedom are a whole number from 1 on, and `confidence` is between 0 and 1. The
    probability rises with the angle atan(t / √degrees), which is found by halving.
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
    """How much runs under the same settings scatter.

    `deviation` is the standard deviation of the logarithm of the time (0.03 is 3 %), estimated with
    so many `degrees` of freedom; 0 degrees: nothing is known.
    """

    deviation: float
    degrees: int


def pooled_noise(groups: Iterable[Sequence[float]]) -> Noise:
    """Return the noise that groups of times have in common, each group of one setting's runs."""
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
    """Return the geometric mean of paired ratios and the interval that holds the true ratio.

    The logarithm of a ratio of two runs has twice the variance of a run's. Student's t with the
    degrees of freedom of the noise: so two pairs suffice where more runs tell the noise.
    Raises ValueError without any ratio, or for one that is not positive and finite.
    """
    if not ratios or not all(0 < ratio < math.inf for ratio in ratios):
        raise ValueError("ratios must be positive, and one or more")
    centre = statistics.fmean(math.log(ratio) for ratio in ratios)
    if not noise.degrees:
        return Interval(math.exp(centre), 0.0, math.inf, len(ratios))
    error = noise.deviation * math.sqrt(2 / len(ratios))
    reach = min(student_quantile(noise.degrees, confidence) * error, _LARGEST_LOG)
    low, high = math.exp(centre - reach), math.exp(centre + reach)
    return Interval(math.exp(centre), low, high, len(ratios))


def noise_floor(times: Sequence[float]) -> float:
    """By how much two runs of the same settings typically differ, as a part: 0.03 is 3 %.

    The median over every two of `times`, so that one disturbed run does not decide. 0 for fewer
    than two: nothing is known then.
    """
    pairs = itertools.combinations(times, 2)
    differences = [abs(math.log(a / b)) for a, b in pairs]
    return math.expm1(statistics.median(differences)) if differences else 0.0
