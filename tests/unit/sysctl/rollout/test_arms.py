# SPDX-License-Identifier: Apache-2.0
"""Arms are stable, of the right size, and independent between roll-outs."""

from __future__ import annotations

import pytest

from sysctl.rollout.arms import (
    CONTROL,
    POSITIONS,
    TREATED,
    WAITING,
    arm_of,
    control_from,
    position_of,
    treated_below,
)
from tests.unit.rollouts import node_names

NODES = list(node_names(20_000))


def test_a_position_is_the_begin_of_a_sha256():
    # printf %s a1/node-1 | sha256sum | cut -c1-8
    assert position_of("node-1", "a1") == 0x8F10C4C7


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.95])
def test_the_treated_are_the_share(share):
    treated = sum(arm_of(node, "r", share, 0.05) == TREATED for node in NODES)
    expected = share * len(NODES)
    assert abs(treated - expected) < 4 * (expected * (1 - share)) ** 0.5 + 1


def test_who_is_treated_stays_so_and_who_is_control_too():
    for node in NODES[:2000]:
        arms = [arm_of(node, "r", share, 0.05) for share in (0.01, 0.1, 0.5, 0.95)]
        if CONTROL in arms:
            assert set(arms) == {CONTROL}
        else:
            first = arms.index(TREATED)
            assert arms == [WAITING] * first + [TREATED] * (len(arms) - first)


def test_the_last_stage_leaves_nobody_waiting():
    assert treated_below(0.95) == control_from(0.05)
    assert WAITING not in {arm_of(node, "r", 0.95, 0.05) for node in NODES}


def test_another_roll_out_has_other_canaries():
    first, second = (
        {node for node in NODES if arm_of(node, rollout, 0.01, 0.05) == TREATED}
        for rollout in ("r", "s")
    )
    assert len(first & second) < 10


def test_every_text_has_a_position():
    for node in ("", "é", "\udc80", "a" * 10_000):
        assert 0 <= position_of(node, "r") < POSITIONS
