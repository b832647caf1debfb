# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import math

from hypothesis import given
from hypothesis import strategies as st

from contracts.stats import (
    BUCKET_COUNT,
    SUB_BUCKETS,
    CallStats,
    ResourceUsage,
    bucket_bounds_ns,
    bucket_index,
    merge,
    merge_usage,
)
from tests.unit.contract_strategies import stats_of

LARGEST_NS = 2**42
LATENCIES = st.lists(
    st.one_of(st.integers(0, 64), st.integers(0, 10**6), st.integers(0, LARGEST_NS - 1)),
    max_size=60,
)


def test_the_buckets_cover_every_latency_once():
    bounds = [bucket_bounds_ns(index) for index in range(BUCKET_COUNT)]
    assert bounds[0] == (0, 1)
    assert all(high == next_low for (_, high), (next_low, _) in zip(bounds, bounds[1:]))
    assert bounds[-1][1] == LARGEST_NS


def test_a_bucket_is_at_most_a_sixteenth_of_its_lower_bound_wide():
    for index in range(SUB_BUCKETS, BUCKET_COUNT):
        low, high = bucket_bounds_ns(index)
        assert (high - low) * 16 <= low


@given(st.integers(0, LARGEST_NS - 1))
def test_a_latency_is_within_its_buckets_bounds(latency_ns):
    low, high = bucket_bounds_ns(bucket_index(latency_ns))
    assert low <= latency_ns < high


@given(st.integers(LARGEST_NS, 2**64 - 1))
def test_a_longer_latency_is_in_the_last_bucket(latency_ns):
    assert bucket_index(latency_ns) == BUCKET_COUNT - 1


@given(LATENCIES.filter(bool), st.integers(1, 100))
def test_a_percentile_is_near_the_call_of_that_rank(latencies_ns, percent):
    rank = max(1, math.ceil(len(latencies_ns) * percent / 100))
    exact = sorted(latencies_ns)[rank - 1]
    assert abs(stats_of(latencies_ns).percentile_ns(percent) - exact) <= exact / 32


@given(LATENCIES.filter(bool))
def test_percentiles_rise_and_stay_within_the_extremes(latencies_ns):
    stats = stats_of(latencies_ns)
    values = [stats.percentile_ns(percent) for percent in (0, 1, 50, 90, 99, 100)]
    assert values == sorted(values)
    assert stats.latency_min_ns <= values[0]
    assert values[-1] <= stats.latency_max_ns


def test_without_calls_there_is_no_latency():
    assert CallStats().latency_mean_ns == 0
    assert CallStats(failed=3).percentile_ns(99) == 0


@given(st.lists(st.tuples(LATENCIES, st.integers(0, 9)), max_size=5))
def test_merged_statistics_equal_those_of_all_calls(parts):
    merged = merge([stats_of(latencies, failed=failed) for latencies, failed in parts])
    everything = [latency for latencies, _ in parts for latency in latencies]
    assert merged == stats_of(everything, failed=sum(failed for _, failed in parts))


@given(st.lists(st.lists(st.integers(0, 99), min_size=8, max_size=8), max_size=4))
def test_merged_usage_has_the_highest_memory_and_the_total_time(figures):
    merged = dataclasses.astuple(merge_usage([ResourceUsage(*span) for span in figures]))
    columns = list(zip(*figures)) or [()] * 8
    assert merged[:3] == tuple(max(column, default=0) for column in columns[:3])
    assert merged[3:] == tuple(sum(column) for column in columns[3:])
