# SPDX-License-Identifier: Apache-2.0
"""Scales, reductions of long series, and paths: the arithmetic of the charts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.html.charts import scale
from profiler.html.charts.columns import binned_rate, joined, reduced, spans_where
from profiler.html.charts.svg import element, outline

GIB = 2**30


@given(st.floats(0, 1e15, allow_nan=False), st.integers(1, 12))
def test_ticks_begin_at_0_and_reach_the_largest_value(high, count) -> None:
    for ticks in (scale.size_ticks(high, count), scale.seconds_ticks(high, count)):
        assert ticks.values[0] == 0
        assert ticks.values[-1] == ticks.top >= high * 0.999
        assert len(ticks.values) == len(ticks.texts) <= 3 * count + 2


def test_ticks_are_round() -> None:
    assert scale.size_ticks(1.7 * GIB, 4).texts == ("0", "0.5 GiB", "1 GiB", "1.5 GiB", "2 GiB")
    assert scale.share_ticks(1.0, 2).texts == ("0", "50%", "100%")
    assert scale.power_ticks(4000).texts == ("1", "10", "100", "1,000", "10,000")
    assert scale.moment_ticks(61.0, 8).texts == (
        "0 s",
        "10 s",
        "20 s",
        "30 s",
        "40 s",
        "50 s",
        "60 s",
    )
    assert scale.moment_ticks(600.0, 8).texts[:3] == ("0:00", "2:00", "4:00")


@given(st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_labels_are_moved_apart_and_keep_their_order(positions) -> None:
    placed = scale.spread_out(positions, 10, 0, 100)
    ranked = [placed[at] for at in sorted(range(len(positions)), key=positions.__getitem__)]
    assert all(b - a >= 10 - 1e-6 for a, b in zip(ranked, ranked[1:]))
    assert ranked[-1] <= 100


def test_a_long_series_keeps_its_peaks_and_ends() -> None:
    times = list(range(10_000))
    values = [0.0] * 10_000
    values[1234], values[9_998] = 7.0, -3.0
    found = reduced(times, values, 100)
    assert len(found) <= 400
    assert found[0] == (0, 0.0) and found[-1] == (9_999, 0.0)
    assert (1234, 7.0) in found and (9_998, -3.0) in found
    assert found == sorted(found)


def test_a_short_series_stays_whole() -> None:
    assert reduced([0, 1, 2], [5, 6, 7]) == [(0, 5), (1, 6), (2, 7)]


def test_a_rate_is_the_mean_over_each_part_and_never_negative() -> None:
    assert binned_rate([0, 1, 2, 3, 4], [0, 10, 20, 20, 60], 2) == [(0, 2, 10.0), (2, 4, 20.0)]
    assert binned_rate([0, 1], [10, 0]) == [(0, 1, 0.0)]
    assert binned_rate([5], [1]) == []


def test_spans_are_joined_across_short_gaps() -> None:
    times = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    spans = spans_where(times, [True, False, True, True, False, True])
    assert spans == [(0.0, 1.0), (2.0, 4.0)]
    assert joined(spans, 1.5) == [(0.0, 4.0)]
    assert joined(spans, 0.5) == spans


@pytest.mark.parametrize(
    ("points", "commands"),
    [
        ([(0, 1), (1, 1), (2, 1), (2, 5), (3, 6)], "M0 1H2V5L3 6"),
        ([(0, 1), (0, 5), (0, 2)], "M0 1V5V2"),
        ([], ""),
    ],
)
def test_a_path_leaves_out_points_on_a_horizontal_line(points, commands) -> None:
    assert outline(points) == commands


def test_an_area_is_closed_at_its_base() -> None:
    assert outline([(0, 1), (4, 3)], base=10) == "M0 1L4 3V10H0Z"


def test_text_and_attributes_are_escaped() -> None:
    found = element("text", "<b>\x1b", class_='"x', x=1.25)
    assert found == '<text class="&#34;x" x="1.2">&lt;b&gt;\\x1b</text>'
