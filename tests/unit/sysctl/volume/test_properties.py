# SPDX-License-Identifier: Apache-2.0
"""Properties of every pull on every volume."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sysctl.evidence.prediction import time_to_return_s
from sysctl.knobs.writeback import Thresholds
from sysctl.volume import instances
from sysctl.volume.cheapest import VolumeSearch, cheapest
from sysctl.volume.limits import MIB, Ceiling, DataPath, LimitedBy
from sysctl.volume.planning import Plan, Pull, PullNode
from sysctl.volume.prices import us_east_1
from sysctl.volume.repeated import courses, repeat
from sysctl.volume.timeline import pull, rest
from sysctl.volume.volume_types import EbsVolume, check, size_range_gib
from sysctl.volume.write_back import return_s
from tests.unit.sysctl.volume.pulls import N, plan, volume_of

EVERY_INSTANCE = [each for each in instances.table().by_name.values() if each.ebs]
sized = st.sampled_from(("gp2", "st1", "sc1")).flatmap(
    lambda name: st.builds(EbsVolume, st.just(name), st.integers(*size_range_gib(name)))
)
gp3 = st.builds(
    lambda size, rate: check(EbsVolume("gp3", size, None, float(rate))).volume,
    st.integers(50, 65_536),
    st.integers(125, 2000),
)
volumes = st.one_of(sized, gp3)
shares = st.floats(0, 1)
#: The time of a few bytes would be lost in the rounding of the credits.
sizes = st.integers(MIB, 2 * 2**40)
ios = st.one_of(st.none(), st.integers(4096, 4 * MIB))
nodes = st.builds(
    lambda instance, rate, of_instance, of_volume: PullNode(
        Ceiling(LimitedBy.SOURCE, rate) if rate else None,
        instance,
        None,
        {LimitedBy.INSTANCE: of_instance, LimitedBy.VOLUME: of_volume},
    ),
    st.one_of(st.none(), st.sampled_from(EVERY_INSTANCE)),
    st.one_of(st.none(), st.floats(MIB, 4000 * MIB)),
    shares,
    shares,
)
plans = st.builds(
    lambda volume, node, size, io_bytes: Plan(Pull(size, io_bytes), node, volume, us_east_1()),
    volumes,
    nodes,
    sizes,
    ios,
)


@given(plans)
def test_a_pull_is_whole_and_its_balance_stays_within_the_bucket(planned):
    phases = planned.course.phases
    assert phases[0].begins_s == 0
    assert all(one.ends_s == two.begins_s for one, two in zip(phases, phases[1:]))
    assert sum(phase.size_bytes for phase in phases) == pytest.approx(planned.pull.size_bytes)
    for phase in phases:
        for bucket, *levels in zip(planned.path.buckets, phase.levels_before, phase.levels_after):
            assert all(0 <= level <= bucket.capacity for level in levels)


@given(plans)
def test_no_limit_is_exceeded_and_one_is_reached(planned):
    for phase in planned.course.phases:
        ceilings = [each.bytes_per_s for each in planned.path.ceilings]
        ceilings += [
            bucket.ceiling(level).bytes_per_s
            for bucket, level in zip(planned.path.buckets, phase.levels_before)
        ]
        assert phase.bytes_per_s == min(ceilings)


@given(plans)
def test_the_bucket_balances(planned):
    """A bucket loses its use minus what it earned, unless it was full."""
    for phase in planned.course.phases:
        for bucket, before, after in zip(
            planned.path.buckets, phase.levels_before, phase.levels_after
        ):
            earned = bucket.baseline_per_s * phase.duration_s
            used = phase.size_bytes * bucket.credits_per_byte
            assert after <= before + earned - used + 1e-6 * bucket.capacity
            if after < bucket.capacity:
                assert after == pytest.approx(before + earned - used, abs=1e-6 * bucket.capacity)


@given(plans, st.floats(0, 10**7))
def test_a_rest_fills_at_the_baseline_up_to_the_capacity(planned, idle_s):
    rested = rest(planned.path, planned.levels, idle_s)
    for bucket, before, after in zip(planned.path.buckets, planned.levels, rested):
        assert after == min(bucket.capacity, before + bucket.baseline_per_s * idle_s)


@given(plans, shares, shares)
def test_more_credit_is_never_slower(planned, one, other):
    less, more = sorted((one, other))
    times_s = [
        pull(
            planned.path, planned.pull.size_bytes, [share * full for full in planned.path.full()]
        ).durable_s
        for share in (less, more)
    ]
    assert times_s[1] <= times_s[0] * (1 + 1e-9)


@given(plans, shares, st.floats(-1e-6, 1e-6))
def test_time_is_continuous_in_credits_and_in_size(planned, share, change):
    """A change by a millionth changes the time equally, times the ratio of the rates."""
    path, size = planned.path, planned.pull.size_bytes
    levels = [share * full for full in path.full()]
    time_s = pull(path, size, levels).durable_s
    near = [level * (1 + change) for level in levels]
    for other in (pull(path, size, near), pull(path, size * (1 + change), levels)):
        assert other.durable_s == pytest.approx(time_s, rel=2e-3)


@given(plans, st.floats(-1e-6, 1e-6))
def test_time_is_continuous_in_every_rate(planned, change):
    """Also in the size of a volume, on which its rates depend."""
    near = DataPath(
        tuple(Ceiling(c.owner, c.bytes_per_s * (1 + change)) for c in planned.path.ceilings),
        tuple(
            type(b)(
                b.owner,
                b.baseline_per_s * (1 + change),
                b.burst_per_s * (1 + change),
                b.capacity * (1 + change),
                b.credits_per_byte,
            )
            for b in planned.path.buckets
        ),
    )
    time_s = pull(near, planned.pull.size_bytes, [s * (1 + change) for s in planned.levels])
    assert time_s.durable_s == pytest.approx(planned.course.durable_s, rel=2e-3)


@settings(deadline=None)
@given(plans, st.floats(0, 86_400))
def test_the_steady_state_is_what_pulls_one_by_one_come_to(planned, idle_s):
    few = 300
    size = planned.pull.size_bytes
    found = repeat(planned.path, size, planned.levels, idle_s)
    run = list(itertools.islice(courses(planned.path, size, planned.levels, idle_s), few))
    one_by_one = [each.durable_s for each in run]
    fast_s = pull(planned.path, size, planned.path.full()).durable_s
    slow = [number for number, time_s in enumerate(one_by_one, 1) if time_s > fast_s * (1 + 1e-6)]
    if found.first_slow_pull is None or found.first_slow_pull > few:
        assert slow == []
    else:
        assert slow[0] == found.first_slow_pull
    if run[-1].levels_after == pytest.approx(run[-2].levels_after, rel=1e-9):
        assert found.steady.durable_s == pytest.approx(one_by_one[-1], rel=1e-4, abs=1e-6)


@given(
    size=st.integers(MIB, 2**40),
    background=st.integers(0, 2**36),
    room=st.integers(1, 2**36),
    source=st.floats(MIB, 4000 * MIB),
    device=st.floats(MIB, 4000 * MIB),
)
def test_the_return_is_that_of_predict_while_the_rate_stays(size, background, room, source, device):
    at = Thresholds(background, background + room)
    path = DataPath((Ceiling(LimitedBy.VOLUME, device),))
    expected_s = time_to_return_s(size, at, 0.0, source, device)
    found_s = return_s(size, at, source, pull(path, size, ()).phases)
    assert found_s == pytest.approx(expected_s, rel=1e-6)


@given(plans, st.integers(0, 2**36), st.integers(1, 2**36), st.floats(MIB, 4000 * MIB))
def test_a_pull_returns_between_the_sources_time_and_durable(planned, background, room, source):
    at = Thresholds(background, background + room)
    size, path = planned.pull.size_bytes, DataPath((Ceiling(LimitedBy.SOURCE, source),))
    course = pull(path + planned.path, size, planned.levels)
    found_s = return_s(size, at, source, course.phases)
    assert size / source * (1 - 1e-6) <= found_s <= course.durable_s * (1 + 1e-6)


@given(
    plans,
    st.integers(2**26, 2**36),
    st.integers(2**26, 2**36),
    st.floats(MIB, 4000 * MIB),
    st.floats(-1e-6, 1e-6),
)
def test_the_return_is_continuous_in_every_parameter(planned, background, room, source, change):
    """Size, thresholds, the source's rate and credits: a millionth changes little."""

    def returns(size_share=1.0, at_share=1.0, source_share=1.0, credits_share=1.0):
        size = planned.pull.size_bytes * size_share
        at = Thresholds(round(background * at_share), round((background + room) * at_share))
        rate = source * source_share
        path = DataPath((Ceiling(LimitedBy.SOURCE, rate),)) + planned.path
        course = pull(path, size, [level * credits_share for level in planned.levels])
        return return_s(size, at, rate, course.phases)

    near = 1 + change
    expected_s = returns()
    for found_s in (returns(near), returns(1, near), returns(1, 1, near), returns(1, 1, 1, near)):
        assert found_s == pytest.approx(expected_s, rel=2e-3)


@settings(deadline=None)
@given(plans, st.floats(1, 86_400), st.floats(-1e-6, 1e-6))
def test_the_steady_time_is_continuous_in_the_pause(planned, idle_s, change):
    size, path, levels = planned.pull.size_bytes, planned.path, planned.levels
    one = repeat(path, size, levels, idle_s).steady.durable_s
    other = repeat(path, size, levels, idle_s * (1 + change)).steady.durable_s
    assert other == pytest.approx(one, rel=2e-3)


@settings(deadline=None, max_examples=50)
@given(
    capacity_gib=st.integers(1, 20_000),
    deadline_s=st.floats(10, 10_000),
    share=shares,
    idle_s=st.one_of(st.none(), st.floats(0, 86_400)),
    others=st.lists(volumes, min_size=20, max_size=20),
)
def test_no_cheaper_volume_is_in_time(capacity_gib, deadline_s, share, idle_s, others):
    node = PullNode(credits={LimitedBy.VOLUME: share})
    wanted = VolumeSearch(Pull(N, None, idle_s), node, us_east_1(), capacity_gib, deadline_s)
    found = cheapest(wanted)
    assert all(each.slowest_s <= deadline_s * (1 + 1e-6) for each in found.plans)
    assert all(volume_of(each).size_gib >= capacity_gib for each in found.plans)
    for cheaper, dearer in zip(found.plans, found.plans[1:]):
        assert cheaper.monthly_usd <= dearer.monthly_usd + 1e-6
        assert cheaper.slowest_s > dearer.slowest_s
    least_usd = found.plans[0].monthly_usd if found.plans else float("inf")
    for other in others:
        planned = plan(other, idle_s=idle_s, credits=node.credits)
        if other.size_gib >= capacity_gib and planned.slowest_s <= deadline_s:
            assert planned.monthly_usd >= least_usd - 1e-6


@given(sized, st.integers(1, 500))
def test_a_larger_volume_is_never_slower(volume, more_gib):
    larger = EbsVolume(volume.type, volume.size_gib + more_gib)
    assume(larger.size_gib <= size_range_gib(volume.type)[1])
    assert plan(larger, idle_s=600).slowest_s <= plan(volume, idle_s=600).slowest_s * (1 + 1e-9)
