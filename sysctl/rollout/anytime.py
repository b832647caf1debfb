# SPDX-License-Identifier: Apache-2.0
"""Evidence of harm that may be looked at at any time, as often as one likes.

The idea, to watch a deployment continuously with a bounded probability of a false alarm, is that of
Lindon, Sanden and Shirikian, Rapid Regression Detection in Software Deployments through Sequential
Testing (arXiv 2205.14762). The tests are two later ones that need one vote a node:

- times: the any-time-valid t-test of Lindon, Ham, Tingley and Bojinov, Anytime-Valid Linear Models
  (arXiv 2210.08589), on logarithms, with the variance of each arm by itself;
- events (a node with failed pulls, OOM kills, …): a likelihood ratio as in the safe logrank test of
  ter Schure, Pérez-Ortiz, Ly and Grünwald (arXiv 2011.06931). Arms are given by a hash, so without
  harm a node with the event is of the treated arm as often as any node is.

By Ville's inequality an e-process without harm ever exceeds 1/alpha with probability alpha at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: How many times as often an event may happen on treated nodes; all have the same weight.
_RISES = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
#: Steps between a share's limit and 1.
_SHARES = 20


@dataclass(frozen=True)
class Moments:
    """Count, mean, and sum of squared deviations of the votes of one arm."""

    count: int
    mean: float
    squares: float

    @property
    def variance(self) -> float:
        """The variance of one vote; infinite if there are fewer than two."""
        return self.squares / (self.count - 1) if self.count > 1 else math.inf


def moments(values: Iterable[float]) -> Moments:
    """Return the moments of the values, summed without cancellation."""
    listed = list(values)
    if not listed:
        return Moments(0, 0.0, 0.0)
    mean = math.fsum(listed) / len(listed)
    return Moments(len(listed), mean, math.fsum((value - mean) ** 2 for value in listed))


@dataclass(frozen=True)
class ArmDifference:
    """Treated minus control: estimate, standard error and degrees of freedom.

    `votes` are the pairs that would say as much: 1 / (1 / treated + 1 / control).
    """

    estimate: float
    error: float
    degrees: float
    votes: float


def difference(treated: Moments, control: Moments) -> ArmDifference | None:
    """Return the difference of the means (Welch); None with fewer than two votes in an arm."""
    if min(treated.count, control.count) < 2:
        return None
    parts = [arm.variance / arm.count for arm in (treated, control)]
    total = sum(parts)
    spread = sum(part**2 / (arm.count - 1) for part, arm in zip(parts, (treated, control)))
    degrees = total**2 / spread if spread else min(treated.count, control.count) - 1.0
    votes = 1 / (1 / treated.count + 1 / control.count)
    return ArmDifference(treated.mean - control.mean, math.sqrt(total), degrees, votes)


def reach(found: ArmDifference, alpha: float, tuned_for: float) -> float:
    """Return how far the true difference may be from the estimate, at any time (two-sided).

    It is narrowest when about `tuned_for` votes are there; infinite with too few.
    """
    prior = max(tuned_for, 1.0) / (2 * math.log(1 / alpha) + 3)  # near the optimum for small alpha
    shrinkage = prior / (prior + found.votes)
    level = (alpha**2 * shrinkage) ** (1 / (found.degrees + 1))
    if level <= shrinkage:
        return math.inf
    squared = found.degrees * (1 - level) / (level - shrinkage)
    return found.error * math.sqrt(squared)


@dataclass(frozen=True)
class Events:
    """How many nodes of an arm had an event, of how many that could."""

    nodes: int
    count: int


def evidence_of_more(treated: Events, control: Events) -> float:
    """Return the logarithm of the e-value of "more often on treated nodes"; 0 says nothing."""
    if not (treated.nodes and control.nodes):
        return 0.0
    share = treated.nodes / (treated.nodes + control.nodes)
    return _mixture(
        treated.count * math.log(rise)
        - (treated.count + control.count) * math.log1p(share * (rise - 1))
        for rise in _RISES
    )


def evidence_above(events: Events, limit: float) -> float:
    """Return the logarithm of the e-value of "in more than the share `limit` of the nodes"."""
    rest = events.nodes - events.count
    shares = [limit + (1 - limit) * step / (_SHARES + 1) for step in range(1, _SHARES + 1)]
    return _mixture(
        events.count * math.log(share / limit) + rest * math.log((1 - share) / (1 - limit))
        for share in shares
    )


def _mixture(logs: Iterable[float]) -> float:
    """Return the logarithm of the mean of the exponentials."""
    listed = list(logs)
    most = max(listed)
    return most + math.log(math.fsum(math.exp(each - most) for each in listed) / len(listed))
