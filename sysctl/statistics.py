"""What repeated measurements say: a centre and a spread, the interval of a ratio, the noise floor.

SciPy calculates; it is imported late, as it takes most of a second.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
_RESAMPLES = 9999
_SEED = 0


@dataclass(frozen=True)
class Repeats:
    """Median, smallest and largest of repeated measurements, in the unit of the measurements."""

    median: float
    smallest: float
    largest: float
    count: int

    @property
    def spread(self) -> float:
        """Largest less smallest."""
        return self.largest - self.smallest

    @property
    def relative_spread(self) -> float:
        """The spread as a part of the median."""
        return self.spread / self.median if self.median else 0.0


def summarize(values: Sequence[float]) -> Repeats:
    """Summarize one measurement or more. Raises ValueError without any."""
    if not values:
        raise ValueError("no measurement to summarize")
    return Repeats(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Interval:
    """A median ratio with its interval, of 95 % unless said; `high` is infinite for one ratio."""

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
    """The median of paired ratios and the interval that holds it with `confidence`.

    Where the order statistics serve, for 95 % from 6 ratios on, the wider, at each end, of the
    percentile bootstrap of the median and of the two order statistics that hold it by the binomial
    distribution (the sign test's interval): neither assumes a shape, and the bootstrap alone holds
    86 % with 7 ratios, since few values have few medians. Below that Student's t of the
    logarithms, and never narrower than with 95 %. The same ratios always give the same interval.
    Raises ValueError without any ratio, or for one that is not positive and finite.
    """
    if not ratios or not all(0 < ratio < math.inf for ratio in ratios):
        raise ValueError("ratios must be positive, and one or more")
    low, high = _bounds(tuple(ratios), confidence)
    return Interval(statistics.median(ratios), low, high, len(ratios))


@functools.lru_cache(maxsize=1024)
def _bounds(ratios: tuple[float, ...], confidence: float) -> tuple[float, float]:
    if len(ratios) == 1:
        return 0.0, math.inf
    ends = _order_statistics(ratios, confidence)
    low, high = _bootstrap(ratios, confidence) if ends else _student(ratios, confidence)
    # more confidence than these serve for: at least as wide as with less
    least, most = ends or _order_statistics(ratios) or (low, high)
    return min(low, least), max(high, most)


def _order_statistics(
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
    from scipy.special import stdtrit

    logs = [math.log(ratio) for ratio in ratios]
    centre, deviation = statistics.fmean(logs), statistics.stdev(logs)
    quantile = float(stdtrit(len(logs) - 1, (1 + confidence) / 2))
    reach = min(quantile * deviation / math.sqrt(len(logs)), 100.0)  # exp() ends at 709
    return math.exp(centre - reach), math.exp(centre + reach)


def _bootstrap(ratios: Sequence[float], confidence: float) -> tuple[float, float]:
    if len(set(ratios)) == 1:
        return ratios[0], ratios[0]  # SciPy calls that degenerate and answers NaN
    import numpy
    from scipy.stats import bootstrap

    found = bootstrap(
        (ratios,),
        numpy.median,
        confidence_level=confidence,
        method="percentile",
        n_resamples=_RESAMPLES,
        random_state=_SEED,
        vectorized=True,  # a hundred times as fast
    ).confidence_interval
    return float(found.low), float(found.high)


def noise_floor(times: Sequence[float]) -> float:
    """By how much two runs of the same settings typically differ, as a part: 0.03 is 3 %.

    The median over every two of `times`, so that one disturbed run does not decide. 0 for fewer
    than two: nothing is known then.
    """
    pairs = itertools.combinations(times, 2)
    differences = [abs(math.log(a / b)) for a, b in pairs]
    return math.expm1(statistics.median(differences)) if differences else 0.0
