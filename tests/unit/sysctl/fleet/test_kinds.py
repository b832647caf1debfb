# SPDX-License-Identifier: Apache-2.0
"""On which nodes a setting gains: two kinds are told apart, and scatter is not taken for kinds."""

from __future__ import annotations

import math
import random

import pytest

from sysctl.fleet.estimate import NodeEffect, estimate
from sysctl.fleet.kinds import LEAST_TAU, NodeKind, is_mixed, verdicts_of

GAINS, NO_GAIN, UNCLEAR = NodeKind.GAINS, NodeKind.NO_GAIN, NodeKind.UNCLEAR


def class_of(ratios, noise=0.01, seed=1, pairs=4):
    """Return the estimate of nodes with these true ratios."""
    draw = random.Random(seed)
    return estimate(
        [
            NodeEffect(
                f"n{at}",
                tuple(ratio * math.exp(draw.gauss(0, noise)) for _ in range(pairs)),
            )
            for at, ratio in enumerate(ratios)
        ]
    )


def kinds_of(found):
    return {each.node: each.kind for each in verdicts_of(found)}


def test_each_node_of_two_kinds_is_named():
    found = class_of([0.5, 1.1, 0.55, 1.0, 0.52])
    assert kinds_of(found) == {
        **{"n0": GAINS, "n1": NO_GAIN, "n2": GAINS, "n3": NO_GAIN, "n4": GAINS},
    }
    verdicts = verdicts_of(found)
    assert is_mixed(found, verdicts)
    assert [each.node for each in verdicts][:1] == ["n0"], "those that gain most come first"
    assert all(each.ratio.low < each.ratio.estimate < each.ratio.high for each in verdicts)
    assert {each.ratio.count for each in verdicts} == {4}


@pytest.mark.parametrize(
    ("ratios", "kind"), [([0.5] * 6, GAINS), ([1.1] * 6, NO_GAIN), ([1.0] * 6, NO_GAIN)]
)
def test_nodes_that_are_alike_are_of_one_kind(ratios, kind):
    found = class_of(ratios)
    assert set(kinds_of(found).values()) == {kind}
    assert not is_mixed(found, verdicts_of(found))


def test_a_ratio_that_noise_hides_is_unclear():
    found = class_of([0.5, 0.5, 0.9, 1.0, 1.05], noise=0.15)
    kinds = kinds_of(found)
    assert kinds["n0"] is GAINS
    assert kinds["n2"] is UNCLEAR and kinds["n3"] is UNCLEAR


def test_nodes_that_differ_by_a_little_are_not_two_kinds_however_exact_they_are():
    found = class_of([0.94, 0.94, 0.96, 0.96, 0.95], noise=0.0005)
    verdicts = verdicts_of(found)
    assert {each.kind for each in verdicts} >= {GAINS, NO_GAIN}
    assert found.tau < LEAST_TAU
    assert not is_mixed(found, verdicts)


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
def test_scatter_is_seldom_taken_for_two_kinds(noise):
    """Classes of one kind, also near the limit of a gain."""
    seen = 0
    for seed in range(500):
        ratio = random.Random(seed).uniform(0.85, 1.02)
        found = class_of([ratio] * 8, noise, seed)
        seen += is_mixed(found, verdicts_of(found))
    assert seen <= 5


def test_a_faster_node_never_counts_as_one_without_a_gain():
    found = class_of([0.4, 0.7, 0.8, 0.3, 0.6], noise=0.02)
    assert set(kinds_of(found).values()) == {GAINS}
    assert not is_mixed(found, verdicts_of(found)), "they differ, but all of them gain"
