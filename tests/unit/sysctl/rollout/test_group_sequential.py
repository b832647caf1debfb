# SPDX-License-Identifier: Apache-2.0
"""Boundaries against published tables, and against a simulation."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from sysctl.rollout.group_sequential import (
    boundaries,
    margin_for,
    spent,
    student_boundary,
    votes_needed,
)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [  # of the programs of Reboussin, DeMets, Kim and Lan for two-sided 0.05
        (2, (2.963, 1.969)),
        (3, (3.710, 2.511, 1.993)),
        (5, (4.877, 3.357, 2.680, 2.290, 2.031)),
    ],
)
def test_the_boundaries_are_the_published_ones(looks, expected):
    fractions = tuple((at + 1) / looks for at in range(looks))
    found = boundaries(fractions, 0.025)
    assert found == pytest.approx(expected, abs=0.001)


def test_one_look_is_the_usual_test():
    assert boundaries((1.0,), 0.05) == pytest.approx((1.6449,), abs=1e-4)


def test_all_is_spent_at_the_end_and_little_before():
    assert spent(1.0, 0.05) == 0.05
    assert spent(1.5, 0.05) == 0.05
    assert spent(1 / 3, 0.05) < 0.001


def test_all_looks_together_err_as_often_as_they_may():
    source = random.Random(5)
    looks = boundaries((1 / 3, 2 / 3, 1.0), 0.05)
    wrong = 0
    for _ in range(20_000):
        total = 0.0
        for number, boundary in enumerate(looks, 1):
            total += source.gauss(0, 1)
            if total / math.sqrt(number) > boundary:
                wrong += 1
                break
    assert 0.045 < wrong / 20_000 < 0.055


@pytest.mark.parametrize("degrees", [1, 3.7, 20, 200, 10**6])
def test_an_estimated_error_has_students_boundary(degrees):
    for score in (1.7, 2.5, 3.7):
        found = student_boundary(score, degrees)
        used = min(int(degrees), 1000)
        assert found == pytest.approx(stats.t.isf(stats.norm.sf(score), used), rel=1e-6)
    assert student_boundary(40.0, degrees) >= 40.0


def test_votes_and_margin_are_inverse():
    votes = votes_needed(0.2, 0.05, 0.05, 0.9)
    assert votes == 144
    assert margin_for(0.2, votes, 0.05, 0.9) == pytest.approx(0.05, abs=2e-4)
