# SPDX-License-Identifier: Apache-2.0
"""Frames are counted without end and kept within bounds; their verdicts are the run's."""

from __future__ import annotations

from datetime import datetime

from contracts.evaluate import evaluate
from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.recording.frame_tally import FrameTally, RuleTally
from profiler.recording.timeframes import Frame
from tests.unit.contract_strategies import stats_of

SECOND_NS = 10**9


def contract(*limits: int) -> Contract:
    rules = (
        Rule(f"over {n}", "/", (CallType.WRITE,), SizeRange(), Measurement.COUNT, n) for n in limits
    )
    return Contract(SECOND_NS, tuple(rules))


def tally_of(contract: Contract, *calls: int, max_kept: int = 9) -> FrameTally:
    """The tally of frames with so many calls each."""
    tally = FrameTally(max_kept)
    for number, count in enumerate(calls, 1):
        stats = (stats_of([10] * count),) * len(contract.rules)
        snapshot = ProfileSnapshot(stats, Losses(), 0, StallStats(), SECOND_NS)
        findings = evaluate(contract, stats)
        tally(Frame(number, 0, datetime(2026, 11, 21), snapshot, findings))
    return tally


def test_frames_that_violate_are_counted_for_each_rule() -> None:
    tally = tally_of(contract(1, 3), 0, 2, 5, 1)
    assert tally.count == 4
    assert tally.rules == (RuleTally(2, 1, 5), RuleTally(1, 1, 5))
    assert [frame.number for frame in tally.kept] == [2, 3]


def test_the_frames_kept_are_bounded() -> None:
    tally = tally_of(contract(1), *[2] * 5, max_kept=2)
    assert ([frame.number for frame in tally.kept], tally.left_out) == ([1, 2], 3)


def test_a_run_is_judged_by_its_frames_and_not_by_its_sum() -> None:
    rules = contract(1, 3, 9)
    whole = evaluate(rules, (stats_of([10] * 10),) * 3)
    assert [finding.violated for finding in whole] == [True, True, True]
    judged = tally_of(rules, 5, 5).judge(whole)
    assert [(each.violated, each.superseded) for each in judged] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    assert [finding.value for finding in judged] == [10, 10, 10]


def test_one_frame_s_verdicts_are_the_run_s() -> None:
    rules = contract(1, 3, 9)
    whole = evaluate(rules, (stats_of([10] * 5),) * 3)
    assert tally_of(rules, 5).judge(whole) == whole
