# SPDX-License-Identifier: Apache-2.0
"""The credits that the lab counts, compared with the plan's exact course."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profiler.lab.credits import LONGEST_LOOK_S, SHORTEST_LOOK_S, BucketLevels, Moved, begin
from profiler.lab.emulated import Emulated
from sysctl.volume import timeline
from sysctl.volume.limits import MIB
from sysctl.volume.volume_types import EbsVolume

ST1 = Emulated(EbsVolume("st1", 256), time_scale=870)
GP2 = Emulated(EbsVolume("gp2", 100), time_scale=600)
BASELINE_BYTES_PER_S = 10 * MIB


def of(emulated: Emulated) -> BucketLevels:
    return begin(emulated.path(), emulated.levels())


def used_at_the_ceiling(credits: BucketLevels, time_s: float) -> BucketLevels:
    """Return the credits after a device that does as much as it may."""
    return credits.after(
        time_s, Moved(round(credits.ceiling.bytes_per_s * time_s), 0), was_lifted=False
    )


@pytest.mark.parametrize(
    "emulated",
    [ST1, GP2, Emulated(EbsVolume("st1", 2000), "m5.large", 600), replace(ST1, credits=0.3)],
)
def test_looks_find_the_fall_where_the_plan_has_it(emulated: Emulated) -> None:
    course = timeline.pull(emulated.path(), 10**12, emulated.levels())
    credits, time_s = of(emulated), 0.0
    before = credits.ceiling
    while credits.ceiling == before:
        look_s = credits.next_look_s
        credits, time_s = used_at_the_ceiling(credits, look_s), time_s + look_s
    assert course.falls_at_s == pytest.approx(time_s, abs=2 * SHORTEST_LOOK_S)
    assert credits.ceiling == emulated.path().rate(course.phases[-1].levels_after)


def test_an_empty_bucket_refills_at_rest_and_bursts_after_a_second_of_its_baseline() -> None:
    credits = of(replace(ST1, credits=0.0))
    for _ in range(9):
        credits = credits.after(0.1, Moved(0, 0), was_lifted=False)
        assert credits.ceiling.bytes_per_s == BASELINE_BYTES_PER_S
    credits = credits.after(0.11, Moved(0, 0), was_lifted=False)
    assert credits.ceiling.bytes_per_s == 62.5 * MIB
    for _ in range(1000):
        credits = credits.after(0.1, Moved(0, 0), was_lifted=False)
    assert credits.levels == (ST1.path().buckets[0].capacity,), "it is never more than full"


def test_a_full_bucket_is_not_empty_until_it_is() -> None:
    credits = of(ST1).after(4, Moved(250 * MIB, 0), was_lifted=False)
    assert credits.levels[0] == pytest.approx(301.24 * MIB - 210 * MIB, rel=0.001)
    assert credits.ceiling.bytes_per_s == 62.5 * MIB


def test_what_passes_while_the_cap_is_lifted_costs_no_more_than_the_ceiling() -> None:
    flood = Moved(100_000 * MIB, 0)
    lifted = of(ST1).after(0.1, flood, was_lifted=True)
    assert ST1.levels()[0] - lifted.levels[0] == pytest.approx((6.25 - 1) * MIB)
    unseen = of(ST1).after(0.1, flood, was_lifted=False)
    assert ST1.levels()[0] - unseen.levels[0] == pytest.approx((18.75 - 1) * MIB)


def test_ios_while_the_cap_is_lifted_cost_no_more_than_the_burst() -> None:
    flood = Moved(0, 10**6)
    lifted = of(GP2).after(0.1, flood, was_lifted=True)
    assert GP2.levels()[0] - lifted.levels[0] == pytest.approx((3000 - 300) * 0.1)
    unseen = of(GP2).after(0.1, flood, was_lifted=False)
    assert GP2.levels()[0] - unseen.levels[0] == pytest.approx(3000 * 0.3 - 300 * 0.1)


def test_a_bucket_of_ios_counts_small_ones_as_one_and_large_ones_by_size() -> None:
    small = of(GP2).after(1, Moved(1000 * 4096, 1000), was_lifted=False)
    assert GP2.levels()[0] - small.levels[0] == pytest.approx(1000 - 300)
    large = of(GP2).after(1, Moved(100 * MIB, 80), was_lifted=False)
    assert GP2.levels()[0] - large.levels[0] == pytest.approx(400 - 300)


def test_a_bucket_of_bytes_does_not_count_ios() -> None:
    credits = of(ST1).after(1, Moved(10 * MIB, 10_000), was_lifted=False)
    assert credits.levels == ST1.levels()


def test_the_next_look_is_when_a_bucket_can_run_empty() -> None:
    assert of(ST1).next_look_s == LONGEST_LOOK_S
    nearly = replace(of(ST1), levels=(52.5 * MIB * 0.03,))
    assert nearly.next_look_s == pytest.approx(0.03)
    assert replace(nearly, levels=(1.0,)).next_look_s == SHORTEST_LOOK_S
    assert of(replace(ST1, credits=0.0)).next_look_s == LONGEST_LOOK_S
