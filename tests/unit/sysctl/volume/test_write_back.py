# SPDX-License-Identifier: Apache-2.0
"""The time to return if the volume gets slower while writers wait, computed by hand."""

from __future__ import annotations

import pytest

from sysctl.knobs.writeback import Thresholds
from sysctl.volume.limits import GIB, MIB, Bucket, Ceiling, DataPath, LimitedBy
from sysctl.volume.timeline import pull
from sysctl.volume.write_back import DEFAULT, Memory, judge, return_s

#: 100 MiB/s for 10 s, then 10 MiB/s; data arrives at 200 MiB/s.
SOURCE = 200 * MIB
PATH = DataPath(
    (Ceiling(LimitedBy.SOURCE, SOURCE),),
    (Bucket(LimitedBy.VOLUME, 10 * MIB, 100 * MIB, 900 * MIB),),
)


def phases(size):
    return pull(PATH, size, PATH.full()).phases


def test_writers_wait_only_after_the_credits_are_gone():
    """2,000 MiB arrive in 10 s, 526 until 1,500 are dirty after 2.63 s, 474 at 10 MiB/s."""
    at = Thresholds(1500 * MIB, 1500 * MIB)
    found_s = return_s(3000 * MIB, at, SOURCE, phases(3000 * MIB))
    assert found_s == pytest.approx(10 + 500 / 190 + (1000 - 200 * 500 / 190) / 10)


def test_a_small_pull_never_waits():
    at = Thresholds(1500 * MIB, 1500 * MIB)
    assert return_s(2500 * MIB, at, SOURCE, phases(2500 * MIB)) == pytest.approx(12.5)


def test_the_slower_phase_allows_less_from_the_same_level_on():
    """From 600 to 800 MiB dirty the allowed rate falls from twice the device's rate to its rate."""
    at = Thresholds(400 * MIB, 1000 * MIB)  # freerun 700, set point 850
    found_s = return_s(3000 * MIB, at, SOURCE, phases(3000 * MIB))
    # freerun after 7 s; in 3 s at 100 MiB/s dirty bytes rise to 850 - 150 exp(-2)
    from math import exp

    held = 850 - 150 * exp(-2)
    arrived = 1400 + 300 + held - 700
    # then 10 MiB/s: all the rest except what fits below the set point, which it approaches
    left = 3000 - arrived
    assert found_s == pytest.approx(10 + (left - (850 - held)) / 10, rel=1e-3)


def test_the_setting_with_the_least_dirty_memory_is_chosen_among_equals():
    """Without a wait 2,500 MiB take 12.5 s; 1,500 are dirty at the end."""
    found = judge(2500 * MIB, Memory(5 * GIB), SOURCE, phases(2500 * MIB))
    assert found.current.setting == DEFAULT
    assert found.makes_writers_wait
    assert 0 < found.current.waits_from_s < found.current.return_s
    assert found.best.waits_from_s is None
    assert found.best.setting.values == {"vm.dirty_ratio": 60, "vm.dirty_background_ratio": 10}
    assert found.best.return_s == pytest.approx(12.5, rel=0.02)


def test_ample_memory_needs_no_setting():
    found = judge(2500 * MIB, Memory(64 * GIB), SOURCE, phases(2500 * MIB))
    assert not found.makes_writers_wait
    assert found.current.waits_from_s is None
    assert found.best is None
