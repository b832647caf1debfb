# SPDX-License-Identifier: Apache-2.0
"""Two sweeps of the same host give the same advice, and the right one: the benchmark's short form.

`tests/bench/bench_advice_stability.py` has the worlds and, with many hosts, the figures that the
docs show. Here are few hosts of each world, always the same, so the limits have slack.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.bench.bench_advice_stability import WORLDS, cell, hosts, simulate

HOSTS = 20
#: As many intervals say something of how often they hold.
_ENOUGH_INTERVALS = 20


@dataclass(frozen=True)
class Expected:
    """Parts of the sweeps: least with the same advice, a change, an extra; each from … to."""

    same: float
    changes: tuple[float, float] = (0.95, 1.0)
    extras: tuple[float, float] = (0.0, 0.0)
    mean_loss: float = 0.01


NO_CHANGE = (0.0, 0.1)
EXPECTED = {
    "independent noise 1 %": Expected(0.95),
    "independent noise 2.5 %": Expected(0.95),
    "independent noise 5 %": Expected(0.95),
    "independent noise 10 %": Expected(0.9),
    "2.5 %, memory ±2 % between sweeps": Expected(0.75, mean_loss=0.02),
    "2.5 %, drift 1 % a run": Expected(0.95),
    "3.5 %, four slow starts, carry-over": Expected(0.9),
    "2.5 %, burst beyond memory (plateau)": Expected(0.75, mean_loss=0.025),
    "2.5 %, a real gain of 8 %": Expected(0.75, (0.8, 1.0), mean_loss=0.02),
    "nothing to gain, 2.5 %": Expected(0.9, NO_CHANGE),
    "nothing to gain, 10 %": Expected(0.9, NO_CHANGE),
    "nothing to gain, slow starts, carry-over": Expected(0.9, NO_CHANGE),
    "an extra that saves 10 %, 2.5 %": Expected(0.8, extras=(0.85, 1.0), mean_loss=0.02),
    "an extra that saves 10 %, 3.5 %": Expected(0.4, extras=(0.6, 1.0), mean_loss=0.04),
    "an inert extra, 2.5 %": Expected(0.95, extras=NO_CHANGE),
    "an inert extra, 10 %": Expected(0.8, extras=NO_CHANGE),
    "an inert extra, slow starts, carry-over": Expected(0.9, extras=NO_CHANGE),
}


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_two_sweeps_of_a_host_agree_and_are_right(world):
    expected, found = EXPECTED[world.name], cell(world, HOSTS)
    assert found.same >= expected.same
    assert expected.changes[0] <= found.changes <= expected.changes[1]
    assert expected.extras[0] <= found.extras <= expected.extras[1]
    assert found.loss <= expected.mean_loss
    if found.intervals >= _ENOUGH_INTERVALS and not world.is_biased:
        assert found.coverage >= 0.85
    assert found.trials <= 20


def test_a_sweep_can_be_done_again_as_it_was():
    """Otherwise a failure could not be investigated."""
    world = next(each for each in WORLDS if each.extra_ratio == 0.9)
    [host] = hosts(world, 1)
    assert simulate(host, world, 3, extras=True) == simulate(host, world, 3, extras=True)
