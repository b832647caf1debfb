# SPDX-License-Identifier: Apache-2.0
"""Worked examples, from AWS's documents and by hand: within 0.5 %, those of write-back within 10 %.

Sizes are in GiB, the pull is the case study's 22,500 MiB, and credits are full unless stated.
"""

from __future__ import annotations

import pytest

from sysctl.volume.cheapest import VolumeSearch, cheapest
from sysctl.volume.limits import GIB, MIB, Bucket, Ceiling, DataPath, LimitedBy
from sysctl.volume.planning import Pull, PullNode
from sysctl.volume.prices import us_east_1
from sysctl.volume.timeline import pull, rest
from sysctl.volume.write_back import CANDIDATES, Memory
from tests.unit.sysctl.volume.pulls import (
    EMPTY_INSTANCE,
    EMPTY_VOLUME,
    IDLE_S,
    N,
    instance,
    plan,
    volume,
    volume_of,
)


def near(value):
    return pytest.approx(value, rel=0.005)


#: The example's number, the plan, and its pull's time to durable.
DURABLE = [
    pytest.param(plan(volume("st1", 500)), 184.3, id="2 st1, full"),
    pytest.param(plan(volume("st1", 500), credits=EMPTY_VOLUME), 1152, id="3 st1, empty"),
    pytest.param(plan(volume("st1", 500), 700_000 * MIB), 9626, id="4 st1, cliff"),
    pytest.param(plan(volume("gp2", 100)), 175.8, id="7 gp2, full"),
    pytest.param(plan(volume("gp2", 100), credits=EMPTY_VOLUME), 300, id="7 gp2, empty"),
    pytest.param(plan(volume("gp2", 100), 100_000 * MIB, 16 * 2**10), 3333, id="8 gp2, random"),
    pytest.param(plan(volume("gp2", 200)), 90, id="9 gp2 200, full"),
    pytest.param(plan(volume("gp2", 200), credits=EMPTY_VOLUME), 150, id="9 gp2 200, empty"),
    pytest.param(plan(volume("gp2", 334)), 90, id="9 gp2 334, full"),
    pytest.param(plan(volume("gp2", 334), credits=EMPTY_VOLUME), 90, id="9 gp2 334, empty"),
    pytest.param(plan(volume("gp2", 500)), 90, id="10 gp2"),
    pytest.param(plan(volume("gp3", 500)), 180, id="10 gp3"),
    pytest.param(plan(volume("gp3", 500, None, 250.0)), 90, id="10 gp3 at 250 MiB/s"),
    pytest.param(
        plan(volume("gp3", 100, None, 1000.0), **instance("m5.large")), 39.7, id="11 m5.large"
    ),
    pytest.param(
        plan(volume("gp3", 100, None, 1000.0), credits=EMPTY_INSTANCE, **instance("m5.large")),
        290.4,
        id="11 m5.large, empty",
    ),
    pytest.param(
        plan(volume("gp3", 1500, None, 1000.0), 1_200_000 * MIB, **instance("m5.large")),
        4133,
        id="12 m5.large, cliff",
    ),
    pytest.param(
        plan(volume("gp3", 100), **instance("m5.large", is_bursting=False)),
        251.7,
        id="13 network's baseline",
    ),
    pytest.param(
        plan(volume("st1", 500), credits=EMPTY_INSTANCE, **instance("t3.medium")),
        543.9,
        id="14 t3.medium, empty",
    ),
    pytest.param(plan(volume("st1", 5 * 1024), 5 * 1024 * GIB), 10_486, id="18 st1"),
    pytest.param(plan(volume("sc1", 5 * 1024), 5 * 1024 * GIB), 20_972, id="18 sc1"),
]


@pytest.mark.parametrize(("planned", "durable_s"), DURABLE)
def test_durable(planned, durable_s):
    assert planned.course.durable_s == near(durable_s)


def test_1_what_the_case_study_reckoned():
    bucket = Bucket(LimitedBy.VOLUME, 20 * MIB, 125 * MIB, 1024 * GIB)
    path = DataPath((), (bucket,))
    (earned,) = rest(path, (0.0,), IDLE_S)
    assert earned == near(54_000 * MIB)
    assert earned / bucket.burst_per_s == near(432)
    assert pull(path, 1024 * GIB, (earned,)).phases[0].ends_s == near(514.3)
    (exact,) = rest(plan(volume("st1", 500)).path, (0.0,), IDLE_S)
    assert exact == near(52_734 * MIB)


def test_2_balance_and_pulls_a_day():
    planned = plan(volume("st1", 500))
    assert planned.balance(LimitedBy.VOLUME, planned.course.levels_after) == near(0.963)
    assert planned.pulls_per_day == near(75.0)


def test_4_falls_off_the_cliff():
    fast, slow = plan(volume("st1", 500), 700_000 * MIB).course.phases
    assert fast.ends_s == near(4993)
    assert fast.size_bytes == near(609_524 * MIB)
    assert slow.bytes_per_s == near(19.53 * MIB)
    assert slow.limited_by is LimitedBy.VOLUME_CREDITS


@pytest.mark.parametrize(
    ("of_volume", "fast_s", "first_slow", "slow_s", "steady_s"),
    [
        pytest.param(volume("st1", 125), 737.3, 21, 1808, 1908, id="5"),
        pytest.param(volume("sc1", 500), 576.0, 151, 1059, 1140, id="6"),
    ],
)
def test_5_and_6_repeated(of_volume, fast_s, first_slow, slow_s, steady_s):
    from itertools import islice

    from sysctl.volume.repeated import courses

    planned = plan(of_volume, idle_s=IDLE_S)
    assert planned.course.durable_s == near(fast_s)
    assert planned.repeated.first_slow_pull == first_slow
    assert planned.repeated.steady.durable_s == near(steady_s)
    every = list(islice(courses(planned.path, N, planned.levels, IDLE_S), first_slow))
    assert every[-2].durable_s == near(fast_s)
    assert every[-1].durable_s == near(slow_s)


def test_7_and_8_credits_of_gp2():
    planned = plan(volume("gp2", 100))
    spent = planned.levels[0] - planned.course.levels_after[0]
    assert spent == near(37_266)
    assert spent / planned.levels[0] == pytest.approx(0.0069, abs=0.00005)
    random = plan(volume("gp2", 100), 100_000 * MIB, 16 * 2**10).course
    assert random.phases[0].ends_s == near(2000)
    assert random.phases[1].bytes_per_s == near(4.6875 * MIB)


def test_10_prices():
    assert plan(volume("gp2", 500)).monthly_usd == near(50)
    assert plan(volume("gp3", 500)).monthly_usd == near(40)
    assert plan(volume("gp3", 500, None, 250.0)).monthly_usd == near(45)


def test_11_and_12_credits_of_the_instance():
    planned = plan(volume("gp3", 100, None, 1000.0), **instance("m5.large"))
    assert planned.course.phases[0].bytes_per_s == near(566.2 * MIB)
    assert planned.levels[0] == near(922_500e6)
    assert planned.levels[0] - planned.course.levels_after[0] == near(20_364e6)
    assert planned.guaranteed_pulls_per_day == 45
    long = plan(volume("gp3", 1500, None, 1000.0), 1_200_000 * MIB, **instance("m5.large"))
    assert long.course.phases[0].ends_s == near(1800)
    assert long.course.phases[1].duration_s == near(2333)
    assert long.course.phases[1].limited_by is LimitedBy.INSTANCE_CREDITS


def test_13_the_network_is_the_limit_and_settings_do_not_help():
    of_network = instance("m5.large", is_bursting=False)
    planned = plan(volume("gp3", 100), memory=Memory(7 * GIB), **of_network)
    assert planned.course.limited_by is LimitedBy.NETWORK
    assert planned.course.phases[0].bytes_per_s == near(89.4 * MIB)
    assert planned.write_back.best is None
    assert not planned.write_back.makes_writers_wait


def test_14_the_empty_instance_is_the_limit():
    of_instance = instance("t3.medium")
    phases = plan(volume("st1", 500), credits=EMPTY_INSTANCE, **of_instance).course.phases
    assert [phase.limited_by for phase in phases] == [LimitedBy.INSTANCE_CREDITS]
    assert phases[0].bytes_per_s == near(41.4 * MIB)


def test_15_a_measured_pull_that_credits_do_not_limit():
    source = Ceiling(LimitedBy.SOURCE, 100 * GIB / 1910)
    assert source.bytes_per_s == near(53.6 * MIB)
    of_instance = {**instance("t3a.micro"), "source": source}
    planned = plan(volume("gp3", 200), 100 * GIB, **of_instance)
    assert planned.course.limited_by is LimitedBy.SOURCE
    spent = planned.levels[0] - planned.course.levels_after[0]
    assert (spent, planned.levels[0]) == (near(85_887e6), near(448_875e6))
    at_base = plan(volume("gp3", 200), 100 * GIB, credits=EMPTY_INSTANCE, **of_instance)
    assert at_base.course.durable_s == near(9544)


@pytest.mark.parametrize(
    ("dirty", "background", "return_s"),
    [
        (20, 10, 96.2),
        (30, 20, 45.9),
    ],
)
def test_16_return_under_settings(dirty, background, return_s):
    of_instance = instance("m5.4xlarge", is_bursting=False)
    planned = plan(volume("st1", 500), memory=Memory(60 * GIB), **of_instance)
    assert planned.node.source.bytes_per_s == near(596 * MIB)
    returns = {str(each.setting): each.return_s for each in planned.write_back.candidates}
    setting = f"dirty_ratio={dirty} dirty_background_ratio={background}"
    assert returns[setting] == pytest.approx(return_s, rel=0.1)
    assert planned.course.durable_s == near(184.3)
    assert planned.write_back.best is not None


def test_16_just_above_freerun_the_law_is_too_long():
    """The example has 37.7 s, and a measurement agrees: see docs/explanation/volumes.md.

    The law of `predict` lets writers wait from freerun on and misses the 10 % by another 14 %.
    """
    of_instance = instance("m5.4xlarge", is_bursting=False)
    planned = plan(volume("st1", 500), memory=Memory(60 * GIB), **of_instance)
    returns = {str(each.setting): each.return_s for each in planned.write_back.candidates}
    found_s = returns["dirty_ratio=40 dirty_background_ratio=10"]
    assert found_s / 37.7 == pytest.approx(1.236, abs=0.005)


def test_17_a_volume_as_fast_as_the_source_gains_nothing():
    of_instance = instance("m5.4xlarge", is_bursting=False)
    planned = plan(volume("gp3", 100, None, 1000.0), memory=Memory(60 * GIB), **of_instance)
    returns = [each.return_s for each in planned.write_back.candidates]
    assert returns == [pytest.approx(37.7, rel=0.1)] * len(CANDIDATES)
    assert planned.course.durable_s == pytest.approx(39.7, rel=0.1)
    assert planned.write_back.best is None


def found(capacity_gib, *, with_margin=False):
    wanted = VolumeSearch(Pull(N), PullNode(), us_east_1(), capacity_gib, 300.0, with_margin)
    first = cheapest(wanted).plans[0]
    chosen = volume_of(first)
    return chosen.type, chosen.size_gib, first.monthly_usd, first.slowest_s


@pytest.mark.parametrize(
    ("capacity_gib", "first"),
    [
        (30, ("gp3", 30, near(2.40), near(180))),
        (173, ("gp3", 173, near(13.84), near(180))),
        (174, ("st1", 308, near(13.86), near(299.2))),
        (320, ("st1", 320, near(14.40), near(288))),
        (321, ("sc1", 960, near(14.40), near(300))),
    ],
)
def test_19_cheapest(capacity_gib, first):
    assert found(capacity_gib) == first


@pytest.mark.parametrize(("type_name", "size_gib"), [("st1", 342), ("sc1", 1067)])
def test_19_with_a_margin(type_name, size_gib):
    from sysctl.volume.cheapest import of_type

    wanted = VolumeSearch(Pull(N), PullNode(), us_east_1(), 125, 300.0, with_hdd_margin=True)
    assert volume_of(of_type(wanted, type_name)).size_gib == size_gib


def test_20_earns_more_than_it_spends():
    planned = plan(volume("gp2", 30), idle_s=IDLE_S)
    assert planned.course.durable_s == near(175.8)
    assert planned.levels[0] - planned.course.levels_after[0] == near(72_422)
    (earned,) = rest(planned.path, (0.0,), IDLE_S)
    assert earned == near(270_000)
    assert planned.repeated.first_slow_pull is None
