# SPDX-License-Identifier: Apache-2.0
"""Boundaries for a few known looks at growing data: what a stage needs to be promoted.

Lan and DeMets, Discrete sequential boundaries for clinical trials, Biometrika 70 (1983): the error
that may have been spent at each share of the information, here like O'Brien and Fleming, so little
is spent early. The boundaries come from the recursion of Armitage, McPherson and Rowe, Repeated
significance tests on accumulating data, J. R. Stat. Soc. A 132 (1969). They are for a known
variance; for an estimated one each is replaced by Student's quantile of the same probability.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

from sysctl.evidence.statistics import student_quantile

_NORMAL = NormalDist()
#: Below -8 the density is less than 1e-14; steps of the integration by Simpson's rule.
_LOWEST, _STEPS = -8.0, 400
#: With more degrees of freedom Student's quantile is that of the normal distribution, to 0.1 %.
_MANY_DEGREES = 1000
#: No information can give a boundary that is larger.
_HIGHEST = 20.0


def spent(fraction: float, alpha: float) -> float:
    """Return the part of `alpha` (one-sided) that may be spent at this fraction of information."""
    if fraction >= 1:
        return alpha
    return 2 * _upper(_NORMAL.inv_cdf(1 - alpha / 2) / math.sqrt(fraction))


@functools.cache
def boundaries(fractions: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    """Return for each look the standard score from which on it decides (one-sided).

    `fractions` of the planned information increase, from above 0 to at most 1. All looks together
    exceed their boundaries with probability `alpha` if there is no difference.
    """
    found: list[float] = []
    points: Sequence[tuple[float, float]] = ()
    before = before_alpha = 0.0
    for fraction in fractions:
        step = math.sqrt(fraction - before)
        wanted = spent(fraction, alpha) - before_alpha
        sum_boundary = _boundary(points, step, wanted)
        found.append(sum_boundary / math.sqrt(fraction))
        points = _density(points, step, sum_boundary, math.sqrt(fraction))
        before, before_alpha = fraction, spent(fraction, alpha)
    return tuple(found)


def _boundary(points: Sequence[tuple[float, float]], step: float, wanted: float) -> float:
    """Return what the sum exceeds with probability `wanted`, by bisection."""
    low, high = -_HIGHEST, _HIGHEST
    while low < (middle := (low + high) / 2) < high:
        if _exceeds(points, step, middle) > wanted:
            low = middle
        else:
            high = middle
    return high


def _exceeds(points: Sequence[tuple[float, float]], step: float, boundary: float) -> float:
    if not points:
        return _upper(boundary / step)
    return sum(weight * _upper((boundary - at) / step) for at, weight in points)


def _density(
    points: Sequence[tuple[float, float]], step: float, boundary: float, scale: float
) -> Sequence[tuple[float, float]]:
    """Return where the sum may be if it stayed below the boundary: places and their weights."""
    low = _LOWEST * scale
    width = (boundary - low) / _STEPS
    places = [low + width * index for index in range(_STEPS + 1)]
    simpson = [1, *([4, 2] * (_STEPS // 2 - 1)), 4, 1]
    return [
        (at, _density_at(points, step, at) * factor * width / 3)
        for at, factor in zip(places, simpson)
    ]


def _density_at(points: Sequence[tuple[float, float]], step: float, at: float) -> float:
    if not points:
        return _gauss(at / step) / step
    return sum(weight * _gauss((at - was) / step) for was, weight in points) / step


def _gauss(score: float) -> float:
    return math.exp(-score * score / 2) / math.sqrt(2 * math.pi)


def _upper(score: float) -> float:
    return math.erfc(score / math.sqrt(2)) / 2


def student_boundary(score: float, degrees: float) -> float:
    """Return the boundary for a score whose standard error was estimated, by Student's t.

    With few votes the estimate is often too small: of two votes one in twelve scores exceeds 3.7
    by chance.
    """
    beyond = _upper(score)
    used = min(max(1, math.floor(degrees)), _MANY_DEGREES)
    return max(score, student_quantile(used, 1 - 2 * beyond)) if beyond > 0 else score


def votes_needed(deviation: float, margin: float, alpha: float, power: float) -> int:
    """Return how many pairs of votes exclude a rise of `margin` if there is none.

    `deviation` is the relative one between nodes. A vote of each arm is a pair; with many more
    votes in the control arm it is about the number of treated nodes, with equal arms half of it.
    """
    scores = _NORMAL.inv_cdf(1 - alpha) + _NORMAL.inv_cdf(power)
    return math.ceil((scores * deviation / math.log1p(margin)) ** 2)


def margin_for(deviation: float, votes: float, alpha: float, power: float) -> float:
    """Return the rise that so many votes exclude with that power: the inverse of the above."""
    scores = _NORMAL.inv_cdf(1 - alpha) + _NORMAL.inv_cdf(power)
    return math.expm1(scores * deviation / math.sqrt(votes))
