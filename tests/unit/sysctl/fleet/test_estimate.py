# SPDX-License-Identifier: Apache-2.0
"""The random-effects estimate, against known values, SciPy, and simulated classes."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from sysctl.fleet.estimate import LEAST_NODES, NodeEffect, effects_of, estimate, paule_mandel

#: Colditz et al., Efficacy of BCG vaccine (JAMA 271, 1994): infected of those with and without it.
BCG = (
    *((4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619)),
    *((33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892)),
    *((29, 7470, 45, 7232), (17, 1699, 65, 1600), (186, 50448, 141, 27197)),
    *((5, 2493, 3, 2338), (27, 16886, 29, 17825)),
)
#: The estimate of Paule and Mandel for the logarithms of its relative risks, as metafor has it.
BCG_TAU_SQUARED = 0.3181


def bcg():
    effects, variances = [], []
    for ill, well, ill_without, well_without in BCG:
        treated, others = ill + well, ill_without + well_without
        effects.append(math.log((ill / treated) / (ill_without / others)))
        variances.append(1 / ill - 1 / treated + 1 / ill_without - 1 / others)
    return effects, variances


def test_the_variance_between_nodes_is_the_published_one():
    assert paule_mandel(*bcg()) == pytest.approx(BCG_TAU_SQUARED, abs=1e-4)


def test_it_solves_the_equation_of_paule_and_mandel():
    effects, variances = bcg()

    def excess(tau_squared):
        weights = [1 / (v + tau_squared) for v in variances]
        centre = sum(w * y for w, y in zip(weights, effects)) / sum(weights)
        return sum(w * (y - centre) ** 2 for w, y in zip(weights, effects)) - len(effects) + 1

    assert paule_mandel(effects, variances) == pytest.approx(optimize.brentq(excess, 0, 10))


def nodes_with(log_ratios, spread=0.02):
    """Return nodes of two pairs each, whose means are given and whose pairs are ± spread."""
    return [
        NodeEffect(f"n{at}", (math.exp(each + spread), math.exp(each - spread)))
        for at, each in enumerate(log_ratios)
    ]


def test_with_equal_pairs_the_intervals_are_those_of_students_t():
    logs = [-0.5, -0.42, -0.61, -0.33, -0.47]
    found = estimate(nodes_with(logs))
    deviation, count = statistics.stdev(logs), len(logs)
    t = stats.t.ppf(0.975, count - 1)
    mean = statistics.fmean(logs)
    assert found.mean.estimate == pytest.approx(math.exp(mean))
    assert found.mean.low == pytest.approx(math.exp(mean - t * deviation / math.sqrt(count)))
    reach = t * deviation * math.sqrt(1 + 1 / count)
    assert found.predicted.low == pytest.approx(math.exp(mean - reach))
    assert found.predicted.high == pytest.approx(math.exp(mean + reach))
    # two pairs at ±0.02 have the variance 2·0.02², and their mean half of it
    assert found.tau == pytest.approx(math.sqrt(deviation**2 - 0.02**2))


def test_nodes_that_scatter_less_than_their_noise_do_not_differ():
    found = estimate(nodes_with([-0.5, -0.5001, -0.4999, -0.5], spread=0.1))
    assert found.tau == 0
    assert found.i_squared == 0


def test_two_kinds_of_nodes_are_seen():
    alike = estimate(nodes_with([-0.70, -0.69, -0.71, -0.70, -0.69, -0.71]))
    mixed = estimate(nodes_with([-0.70, -0.69, -0.71, 0.05, 0.04, 0.06]))
    assert alike.i_squared < 0.5 < 0.9 < mixed.i_squared
    assert alike.predicted.high < 1 < mixed.predicted.high


def test_more_nodes_would_be_enough_where_the_few_are_the_reason():
    few = estimate(nodes_with([-0.3, -0.2, -0.42]))
    assert few.predicted.high > 1
    enough = few.enough_nodes()
    assert enough is not None
    assert enough > 3
    more = estimate(nodes_with([-0.3, -0.2, -0.42] * ((enough + 2) // 3)))
    assert more.predicted.high < 1


def test_no_number_of_nodes_is_enough_where_some_are_slower():
    assert estimate(nodes_with([-0.5, -0.4, 0.4, 0.3])).enough_nodes() is None


@pytest.mark.parametrize("count", [5, 8, 20])
def test_the_interval_holds_another_nodes_measured_ratio(count):
    held, classes = 0, 400
    for seed in range(classes):
        draw = random.Random(seed)
        mean, tau, noise = draw.gauss(-0.5, 0.3), draw.choice([0, 0.05, 0.2]), 0.05

        def node(name, draw=draw, mean=mean, tau=tau, noise=noise):
            own = draw.gauss(mean, tau)
            return NodeEffect(name, tuple(math.exp(draw.gauss(own, noise)) for _ in range(4)))

        found = estimate([node(str(at)) for at in range(count)])
        held += found.predicted.includes(node("another").ratio)
    assert 0.92 <= held / classes <= 0.98


@pytest.mark.parametrize("pairs", [(4, 2, 2, 2, 2), (4, 2, 2, 2, 2, 2, 2, 2), (4, 4, 4, 2, 1)])
@pytest.mark.parametrize("tau", [0.0, 0.05])
def test_the_intervals_hold_while_some_nodes_have_more_pairs(pairs, tau):
    """As in a study that is not complete: some nodes have measured all their blocks."""
    of_mean = of_another = 0
    classes, mean, noise = 400, -0.5, 0.05
    for seed in range(classes):
        draw = random.Random(seed)

        def node(name, count, draw=draw):
            own = draw.gauss(mean, tau)
            return NodeEffect(name, tuple(math.exp(draw.gauss(own, noise)) for _ in range(count)))

        found = estimate([node(str(at), count) for at, count in enumerate(pairs)])
        of_mean += found.mean.includes(math.exp(mean))
        of_another += found.predicted.includes(node("another", statistics.median_low(pairs)).ratio)
    assert 0.915 <= of_mean / classes <= 0.99
    assert of_another / classes >= 0.915


@given(st.lists(st.lists(st.floats(0.01, 100), min_size=2, max_size=6), min_size=3, max_size=12))
def test_any_positive_ratios_have_an_estimate_with_ordered_intervals(ratios):
    found = estimate(effects_of({str(at): each for at, each in enumerate(ratios)}))
    for interval in (found.mean, found.predicted):
        assert interval.low <= interval.estimate <= interval.high
    assert found.predicted.high >= found.mean.high * (1 - 1e-9)
    assert 0 <= found.i_squared <= 1
    assert found.tau >= 0


@pytest.mark.parametrize(
    "nodes",
    [
        nodes_with([0.1] * (LEAST_NODES - 1)),
        [NodeEffect(str(at), (0.5,)) for at in range(5)],
        [*nodes_with([0.1, 0.2, 0.3]), NodeEffect("x", (0.0,))],
        [*nodes_with([0.1, 0.2, 0.3]), NodeEffect("x", ())],
        [*nodes_with([0.1, 0.2, 0.3]), NodeEffect("x", (math.inf,))],
    ],
)
def test_what_cannot_be_estimated_is_refused(nodes):
    with pytest.raises(ValueError, match="need"):
        estimate(nodes)
