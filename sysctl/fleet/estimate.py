# SPDX-License-Identifier: Apache-2.0
"""What a setting is worth on a node of the class that was not measured: a random-effects estimate.

Each node gives the logarithm of the ratio of its times, the mean of its pairs. Nodes differ in two
ways: by the noise of their runs, which more pairs reduce, and in truth, which only more nodes show.

    y_i = mu + u_i + e_i      u_i ~ N(0, tau^2)      e_i ~ N(0, v_i),  v_i = s^2 / pairs of node i

- `s^2` is the variance of the logarithms of pairs around their node's mean, pooled over nodes.
- `tau^2` is the estimate of Paule and Mandel (Journal of Research of the National Bureau of
  Standards 87, 1982): the value for which the weighted squares of the deviations are `nodes - 1`.
- The interval of the mean is that of Hartung and Knapp (Statistics in Medicine 20, 2001).
- The prediction interval is for the ratio that the same number of pairs would show on another
  node, by Student's t with `nodes - 1` degrees of freedom (Higgins, Thompson and Spiegelhalter,
  Journal of the Royal Statistical Society A 172, 2009, with the noise of the new node added). For
  it, `tau^2` may be negative: if nodes scatter less than their noise explains, the noise counted
  too much, and an interval of it would be too wide. The weights of the nodes are those of a `tau^2`
  that is not negative. With equal numbers of pairs the interval is exact for normal effects.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sysctl.evidence.statistics import CONFIDENCE, Interval, student_quantile

#: Student's t of two nodes is 12.7: their prediction interval says nothing.
LEAST_NODES = 3
#: The number of nodes that is searched for one that would be enough.
MOST_NODES = 1000
#: exp() overflows at 709.
_LARGEST_LOG = 100.0
_STEPS = 200


@dataclass(frozen=True)
class NodeEffect:
    """The ratios of one node's pairs: below 1 the setting is faster."""

    node: str
    ratios: tuple[float, ...]

    @property
    def log_ratio(self) -> float:
        """The mean of the logarithms."""
        return statistics.fmean(map(math.log, self.ratios))

    @property
    def ratio(self) -> float:
        """The geometric mean."""
        return math.exp(self.log_ratio)


@dataclass(frozen=True)
class ClassEstimate:
    """What the nodes show together.

    `mean` is the ratio of a typical node with its interval, `predicted` the interval of the ratio
    that the same pairs would show on another node. `tau` is the standard deviation between nodes of
    the logarithm of the true ratio (0.2: nodes differ by 20 %), `i_squared` the share of the
    scatter that noise does not explain. `spread` is the standard deviation that a new node's
    measured logarithm has, with its noise. All intervals have `confidence`.
    """

    nodes: tuple[NodeEffect, ...]
    mean: Interval
    predicted: Interval
    tau: float
    i_squared: float
    spread: float
    confidence: float = CONFIDENCE

    def enough_nodes(self, ratio: float = 1.0) -> int | None:
        """Return the number of nodes with which the prediction would stay below `ratio`.

        It assumes the same mean and the same spread. None: no number of nodes is enough, because
        the nodes differ by too much.
        """
        room = math.log(ratio) - math.log(self.mean.estimate)
        return _first(lambda count: self._reach(count) < room)

    def _reach(self, count: int) -> float:
        quantile = student_quantile(count - 1, self.confidence)
        return quantile * self.spread * math.sqrt(1 + 1 / count)


def estimate(nodes: Sequence[NodeEffect], confidence: float = CONFIDENCE) -> ClassEstimate:
    """Return the estimate of a class.

    Raises ValueError with fewer than `LEAST_NODES` nodes, a node without a pair, no node with two,
    or a ratio that is not positive and finite.
    """
    _check(nodes)
    effects = [node.log_ratio for node in nodes]
    noise = variance_of_a_pair(nodes)
    variances = [noise / len(node.ratios) for node in nodes]
    raw = paule_mandel(effects, variances)
    tau_squared = max(0.0, raw)
    weights = _weights(variances, tau_squared)  # a negative one can give all weight to one node
    centre = _mean(effects, weights)
    usual_pairs = statistics.median_low(len(node.ratios) for node in nodes)
    of_mean = _hartung_knapp(effects, weights, centre)
    spread_squared = max(raw + noise / usual_pairs, 0.0)
    quantile = student_quantile(len(nodes) - 1, confidence)
    return ClassEstimate(
        nodes=tuple(nodes),
        mean=_interval(centre, quantile * math.sqrt(of_mean), len(nodes)),
        predicted=_interval(centre, quantile * math.sqrt(spread_squared + of_mean), len(nodes)),
        tau=math.sqrt(tau_squared),
        i_squared=_i_squared(effects, variances),
        spread=math.sqrt(spread_squared),
        confidence=confidence,
    )


def _check(nodes: Sequence[NodeEffect]) -> None:
    if len(nodes) < LEAST_NODES:
        raise ValueError(f"an estimate needs at least {LEAST_NODES} nodes, not {len(nodes)}")
    ratios = [ratio for node in nodes for ratio in node.ratios]
    if not all(node.ratios for node in nodes) or not all(0 < each < math.inf for each in ratios):
        raise ValueError("each node needs a pair, and all ratios must be positive and finite")
    if len(ratios) == len(nodes):
        raise ValueError("at least one node needs two pairs, which show the noise")


def variance_of_a_pair(nodes: Sequence[NodeEffect]) -> float:
    """Return the pooled variance of the logarithm of one pair's ratio around its node's mean."""
    squares, degrees = 0.0, 0
    for node in nodes:
        centre = node.log_ratio
        squares += sum((math.log(ratio) - centre) ** 2 for ratio in node.ratios)
        degrees += len(node.ratios) - 1
    return squares / degrees


def _weights(variances: Sequence[float], tau_squared: float) -> list[float]:
    totals = [variance + tau_squared for variance in variances]
    if min(totals) <= 0:  # no scatter at all: every node counts alike
        return [1.0] * len(totals)
    return [1 / total for total in totals]


def _mean(effects: Sequence[float], weights: Sequence[float]) -> float:
    return sum(map(_product, weights, effects)) / sum(weights)


def _product(one: float, other: float) -> float:
    return one * other


def _weighted_squares(effects: Sequence[float], weights: Sequence[float]) -> float:
    centre = _mean(effects, weights)
    return sum(weight * (effect - centre) ** 2 for weight, effect in zip(weights, effects))


def paule_mandel(effects: Sequence[float], variances: Sequence[float]) -> float:
    """Return the estimate of tau² from effects and their variances.

    It may be negative, down to the least variance: then nodes scatter less than their noise.
    """
    wanted = len(effects) - 1
    low, high = -min(variances), statistics.variance(effects)

    def is_too_small(tau_squared: float) -> bool:
        if min(variances) + tau_squared <= 0:
            return True
        weights = _weights(variances, tau_squared)
        return _weighted_squares(effects, weights) > wanted

    while is_too_small(high) and high > 0:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if is_too_small(middle):
            low = middle
        else:
            high = middle
    return high


def _hartung_knapp(effects: Sequence[float], weights: Sequence[float], centre: float) -> float:
    """Return the squared standard error of the mean."""
    squares = sum(weight * (effect - centre) ** 2 for weight, effect in zip(weights, effects))
    return squares / ((len(effects) - 1) * sum(weights))


def _i_squared(effects: Sequence[float], variances: Sequence[float]) -> float:
    """Return the share of the scatter that noise does not explain (Higgins and Thompson, 2002)."""
    if min(variances) <= 0:
        return 1.0 if len(set(effects)) > 1 else 0.0
    squares = _weighted_squares(effects, [1 / variance for variance in variances])
    return max(0.0, 1 - (len(effects) - 1) / squares) if squares else 0.0


def _interval(centre: float, reach: float, count: int) -> Interval:
    bounded = min(reach, _LARGEST_LOG)
    ends = math.exp(centre - bounded), math.exp(centre + bounded)
    return Interval(math.exp(centre), *ends, count)


def _first(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number of nodes that is enough; more are never worse."""
    if not is_enough(MOST_NODES):
        return None
    low, high = LEAST_NODES - 1, MOST_NODES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def effects_of(ratios: Mapping[str, Sequence[float]]) -> list[NodeEffect]:
    """Return the nodes that have a pair, in the order of their names."""
    return [NodeEffect(node, tuple(found)) for node, found in sorted(ratios.items()) if found]
