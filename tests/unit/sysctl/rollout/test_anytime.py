# SPDX-License-Identifier: Apache-2.0
"""The evidence of harm: false alarms with a look after every vote, and what it detects."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysctl.rollout.anytime import (
    Events,
    Moments,
    difference,
    evidence_above,
    evidence_of_more,
    moments,
    reach,
)

ALPHA = 0.05


class Growing:
    """Votes that arrive one by one."""

    def __init__(self):
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, value):
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)

    @property
    def moments(self):
        return Moments(self.count, self.mean, self.squares)


def false_alarms(runs, draw, tuned_for=100):
    """How many of the runs ever exclude the truth, with a look after every vote from the 3rd."""
    wrong = 0
    for _ in range(runs):
        treated, control = Growing(), Growing()
        for _ in range(200):
            treated.add(draw())
            control.add(draw())
            found = difference(treated.moments, control.moments)
            if found and abs(found.estimate) > reach(found, ALPHA, tuned_for):
                wrong += 1
                break
    return wrong


def test_looks_at_any_time_raise_few_false_alarms():
    source = random.Random(3)
    assert false_alarms(600, lambda: source.gauss(0, 0.2)) <= 600 * ALPHA + 16  # 3 deviations


def test_a_test_that_ignores_the_looks_would_raise_many():
    source = random.Random(3)
    wrong = 0
    for _ in range(200):
        treated, control = Growing(), Growing()
        for _ in range(200):
            treated.add(source.gauss(0, 0.2))
            control.add(source.gauss(0, 0.2))
            found = difference(treated.moments, control.moments)
            if found and abs(found.estimate) > 1.96 * found.error:
                wrong += 1
                break
    assert wrong > 200 * 3 * ALPHA


def test_skewed_times_raise_few_false_alarms():
    source = random.Random(4)
    draw = lambda: math.log(source.expovariate(1) + 0.05)  # noqa: E731
    assert false_alarms(400, draw) <= 400 * ALPHA + 14


def test_a_difference_is_found():
    source = random.Random(5)
    treated = moments(source.gauss(0.1, 0.2) for _ in range(300))
    control = moments(source.gauss(0, 0.2) for _ in range(3000))
    found = difference(treated, control)
    assert found.estimate - reach(found, 0.001, 150) > 0


def test_few_votes_exclude_nothing():
    assert difference(moments([1.0]), moments([1.0, 2.0])) is None
    found = difference(moments([1.0, 1.1]), moments([1.0, 1.2]))
    assert reach(found, 0.001, 100) == math.inf


def events_alarms(rate, rise=1.0, runs=1000):
    """How often nodes with an event, which come one by one, are ever evidence."""
    source = random.Random(6)
    wrong = 0
    for _ in range(runs):
        nodes = {True: 0, False: 0}
        seen = {True: 0, False: 0}
        for _ in range(400):
            is_treated = source.random() < 0.2
            nodes[is_treated] += 1
            seen[is_treated] += source.random() < rate * (rise if is_treated else 1)
            found = evidence_of_more(
                Events(nodes[True], seen[True]), Events(nodes[False], seen[False])
            )
            if found >= math.log(1 / ALPHA):
                wrong += 1
                break
    return wrong


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_events_raise_few_false_alarms(rate):
    assert events_alarms(rate) <= 1000 * ALPHA + 21


def test_more_events_are_found():
    assert events_alarms(0.05, rise=5, runs=200) > 160


def test_three_oom_kills_of_a_hundred_canaries_and_none_elsewhere_are_evidence():
    found = evidence_of_more(Events(100, 3), Events(5000, 0))
    assert found > math.log(1 / 0.0015)
    assert evidence_of_more(Events(100, 3), Events(5000, 150)) < 0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_evidence_is_finite(treated, with_event, control, with_event_too):
    first = Events(treated, min(treated, with_event))
    second = Events(control, min(control, with_event_too))
    assert math.isfinite(evidence_of_more(first, second))
    assert math.isfinite(evidence_above(first, 0.05))


def test_a_share_above_its_limit_is_evidence():
    assert evidence_above(Events(20, 10), 0.05) > math.log(1000)
    assert evidence_above(Events(20, 1), 0.05) < 1
    assert evidence_above(Events(0, 0), 0.05) == pytest.approx(0)
