# SPDX-License-Identifier: Apache-2.0
"""The sample of a prefix: within the bytes, the same each time, with the sizes of the whole."""

from __future__ import annotations

import bisect

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contracts.shared.errors import UsageError
from profiler.pull.sample import choose, sampled
from profiler.pull.source import Location, PullPlan, RemoteObject

SIZES = st.lists(st.integers(0, 2**36), min_size=1, max_size=200)


def objects_of(sizes):
    return tuple(RemoteObject(f"k/{n:04}", f"{n:04}", size, "etag") for n, size in enumerate(sizes))


def plan_of(sizes):
    return PullPlan(Location("bucket", "k"), objects_of(sizes))


def share_below(ordered, size):
    return bisect.bisect_right(ordered, size) / len(ordered)


@given(SIZES, st.integers(0, 2**40))
def test_it_keeps_to_the_bytes_and_takes_no_object_twice(sizes, max_bytes):
    chosen = choose(objects_of(sizes), max_bytes)
    assert sum(each.size_bytes for each in chosen) <= max_bytes
    keys = [each.key for each in chosen]
    assert keys == sorted(set(keys))  # in the order of the listing


@given(SIZES, st.integers(0, 2**40))
def test_its_sizes_are_distributed_as_all_are_within_a_stratum(sizes, max_bytes):
    chosen = sorted(each.size_bytes for each in choose(objects_of(sizes), max_bytes))
    assume(chosen)
    for size in sizes:
        away = abs(share_below(chosen, size) - share_below(sorted(sizes), size))
        assert away <= 0.5 / len(chosen) + 1 / len(sizes) + 1e-9


@given(SIZES, st.integers(0, 2**40), st.randoms(use_true_random=False))
def test_it_depends_on_the_objects_and_not_on_their_order(sizes, max_bytes, random):
    objects = list(objects_of(sizes))
    first = {each.key for each in choose(objects, max_bytes)}
    random.shuffle(objects)
    assert {each.key for each in choose(objects, max_bytes)} == first


@given(st.integers(1, 10**6), st.integers(1, 300), st.integers(0, 10**9))
def test_of_equal_objects_it_takes_as_many_as_fit(size, count, max_bytes):
    chosen = choose(objects_of([size] * count), max_bytes)
    assert len(chosen) == min(count, max_bytes // size)


def test_two_sizes_keep_their_proportion():
    plan = sampled(plan_of([1000] * 900 + [10**6] * 100), 10**7)
    small = sum(each.size_bytes == 1000 for each in plan.objects)
    assert small == pytest.approx(0.9 * len(plan.objects), abs=1)
    assert 0.8 * 10**7 < plan.bytes <= 10**7
    assert (plan.whole_objects, plan.whole_bytes) == (1000, 900 * 1000 + 100 * 10**6)


@pytest.mark.parametrize("max_bytes", [None, 300, 1000])
def test_a_prefix_that_fits_is_pulled_whole(max_bytes):
    plan = plan_of([100] * 3)
    assert sampled(plan, max_bytes) is plan
    assert plan.whole_bytes == 0


def test_a_limit_below_the_middle_object_is_refused():
    with pytest.raises(UsageError, match="smaller than the object of median size") as caught:
        sampled(plan_of([1, 1000, 1000]), 900)
    assert "several objects" in caught.value.hint
