# SPDX-License-Identifier: Apache-2.0
"""Frames add up to the total whatever they hold, and each is judged by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.shared.errors import UsageError
from contracts.stats import CallStats, ResourceUsage
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.recording.timeframes import Frame, Timeframes, check_timeframe, merge_snapshots
from tests.unit.contract_strategies import stats_of

SECOND_NS = 10**9
NOTHING = ProfileSnapshot((CallStats(),), Losses(), 0, StallStats(), SECOND_NS)
NOON = datetime(2026, 11, 21, 12)


def rule(measurement: Measurement, threshold: int, label: str = "rule") -> Rule:
    call_types = (CallType.WRITE,) if measurement.is_of_calls else ()
    return Rule(label, "/", call_types, SizeRange(), measurement, threshold)


def contract(*rules: Rule, timeframe_ns: int = SECOND_NS) -> Contract:
    return Contract(timeframe_ns, rules or (rule(Measurement.COUNT, 1),))


class Counters:
    """A session whose resets give the snapshots of a list, one after the other."""

    def __init__(self, *snapshots: ProfileSnapshot) -> None:
        self.left = list(snapshots)

    def snapshot(self) -> ProfileSnapshot:
        return self.left[0]

    def reset(self) -> ProfileSnapshot:
        return self.left.pop(0)


class Usage:
    def __init__(self, *usages: ResourceUsage) -> None:
        self.left = list(usages)

    def take(self) -> ResourceUsage:
        return self.left.pop(0)


LATENCIES = st.lists(st.integers(0, 10**12), max_size=20)


@given(st.lists(LATENCIES, min_size=1, max_size=5))
def test_frames_add_up_to_what_one_run_counts(frames: list[list[int]]) -> None:
    parts = [replace(NOTHING, stats=(stats_of(latencies),)) for latencies in frames]
    together = merge_snapshots(parts)
    assert together.stats == (stats_of([each for latencies in frames for each in latencies]),)
    assert together.elapsed_ns == len(frames) * SECOND_NS


def test_sums_are_summed_and_extremes_are_those_of_all() -> None:
    first = replace(NOTHING, stall=StallStats(5, 3, 100, 7, 9), in_flight=4, writers=2)
    second = replace(NOTHING, stall=StallStats(1, 1, 10, 8, 1), in_flight=1, writers=1)
    second = replace(second, losses=Losses(calls_overwritten=2))
    together = merge_snapshots([first, second, second])
    assert together.stall == StallStats(7, 5, 120, 8, 9)
    assert together.losses == Losses(calls_overwritten=4)
    assert (together.in_flight, together.writers) == (1, 2)


def test_each_frame_is_judged_by_itself_and_knows_its_place() -> None:
    frames: list[Frame] = []
    counted = [replace(NOTHING, stats=(stats_of([10] * calls),)) for calls in (1, 3, 0)]
    timeframes = Timeframes(Counters(*counted), contract(), [frames.append], now=lambda: NOON)
    for _ in counted:
        timeframes.close()
    assert [frame.findings[0].violated for frame in frames] == [False, True, False]
    assert [(frame.number, frame.start_ns) for frame in frames] == [
        *((1, 0), (2, SECOND_NS), (3, 2 * SECOND_NS)),
    ]
    assert timeframes.count == 3
    assert timeframes.total.stats == (stats_of([10] * 4),)


def test_what_runs_is_in_what_was_counted_so_far_and_stays_there() -> None:
    counters = Counters(*[replace(NOTHING, stats=(stats_of([10]),))] * 2)
    timeframes = Timeframes(counters, contract())
    assert [timeframes.so_far().stats[0].count for _ in range(2)] == [1, 1]
    timeframes.close()
    assert [timeframes.so_far().stats[0].count for _ in range(2)] == [2, 2]
    timeframes.close()
    assert timeframes.total.stats[0].count == 2


def test_there_is_no_total_before_a_frame() -> None:
    with pytest.raises(ValueError, match="no frame"):
        _ = Timeframes(Counters(), contract()).total


def test_rules_of_resources_are_judged_on_the_frame_s_usage() -> None:
    frames: list[Frame] = []
    timeframes = Timeframes(
        Counters(NOTHING, NOTHING),
        contract(rule(Measurement.MEMORY_RSS, 100)),
        [frames.append],
        sampler=Usage(ResourceUsage(rss_bytes=101, user_ns=5), ResourceUsage(rss_bytes=99)),
    )
    timeframes.close()
    timeframes.close()
    assert [frame.findings[0].violated for frame in frames] == [True, False]
    assert timeframes.usage == ResourceUsage(rss_bytes=101, user_ns=5)


def test_of_rules_alike_only_the_one_with_the_largest_threshold_leads() -> None:
    frames: list[Frame] = []
    rules = [rule(Measurement.COUNT, limit, f"over {limit}") for limit in (1, 3, 2, 9)]
    counted = replace(NOTHING, stats=(stats_of([10] * 5),) * 4)
    Timeframes(Counters(counted), contract(*rules), [frames.append]).close()
    assert [finding.rule.label for finding in frames[0].leading] == ["over 3"]


@pytest.mark.parametrize(
    ("elapsed_ns", "length_ns"),
    [
        (SECOND_NS, SECOND_NS),
        (SECOND_NS + 10**7, SECOND_NS),
        (SECOND_NS + 2 * 10**7, SECOND_NS + 2 * 10**7),
        (SECOND_NS // 2, SECOND_NS // 2),
    ],
)
def test_a_frame_that_is_late_or_the_rest_is_as_long_as_it_was(
    elapsed_ns: int, length_ns: int
) -> None:
    frame = Frame(1, 0, NOON, replace(NOTHING, elapsed_ns=elapsed_ns), ())
    assert frame.length_ns(SECOND_NS) == length_ns


def test_a_timeframe_too_short_to_be_cut_is_refused() -> None:
    check_timeframe(contract(timeframe_ns=10**8))
    with pytest.raises(UsageError, match="timeframe of 99ms is too short"):
        check_timeframe(contract(timeframe_ns=99 * 10**6))
