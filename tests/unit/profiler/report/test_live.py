# SPDX-License-Identifier: Apache-2.0
"""What the live view says of two looks; where it may be drawn."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.shared.errors import UsageError
from contracts.stats import CallStats
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.report.live import calls_table, dirty_line, head_line, open_terminal, slots_shown
from sysctl.knobs.writeback import Thresholds
from tests.unit.contract_strategies import stats_of

SECOND_NS = 10**9
MIB = 1 << 20


def rule(label: str, path: str, *call_types: CallType) -> Rule:
    return Rule(label, path, call_types, SizeRange(), Measurement.COUNT, 1)


CONTRACT = Contract(
    SECOND_NS,
    (
        rule("a", "/data", CallType.WRITE),
        rule("b", "/data", CallType.WRITE),
        rule("c", "/", CallType.FSYNC),
    ),
)


def snapshot(elapsed_s: float, writes: CallStats, lost: int = 0) -> ProfileSnapshot:
    losses = Losses(calls_overwritten=lost)
    stats = (writes, writes, CallStats())
    return ProfileSnapshot(stats, losses, 0, StallStats(), int(elapsed_s * SECOND_NS))


def rows(before: ProfileSnapshot | None, now: ProfileSnapshot) -> list[list[str]]:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as capture:
        console.print(calls_table(slots_shown(CONTRACT), before, now))
    return [line.split() for line in capture.get().splitlines()]


def test_rates_are_of_the_time_since_the_look_before() -> None:
    before = snapshot(1, stats_of([1000] * 10, call_bytes=MIB))
    now = snapshot(1.5, stats_of([1000] * 110, call_bytes=MIB))
    _, writes, fsyncs = rows(before, now)
    assert writes == ["write", "/data", "110", "200", "200", "MiB/s", "1.00", "µs", "1.00", "µs"]
    assert fsyncs == ["fsync", "/", "0", "0", "–", "–", "–"]


def test_the_first_look_s_rates_are_since_the_beginning() -> None:
    _, writes, _ = rows(None, snapshot(2, stats_of([1000] * 10, call_bytes=MIB)))
    assert writes[2:6] == ["10", "5", "5.00", "MiB/s"]
    assert rows(None, snapshot(0, CallStats()))[1][2:4] == ["0", "0"]


def test_the_stall_is_a_share_of_the_time_in_calls_since_the_look_before() -> None:
    before = snapshot(1, replace(stats_of([1000] * 10), throttled_ns=10_000))
    now = snapshot(2, replace(stats_of([1000] * 20), throttled_ns=12_500), lost=3)
    assert head_line(before, now).startswith("2.00 s · 25% of the time in calls stalled by")
    assert " · lost: 3 · " in head_line(before, now)
    assert "no time in calls" in head_line(now, now)


@pytest.mark.parametrize(
    ("held_mib", "filled", "style"),
    [(0, 0, "green"), (10, 4, "green"), (55, 21, "yellow"), (80, 30, "red"), (500, 38, "red")],
)
def test_dirty_memory_against_the_thresholds(held_mib: int, filled: int, style: str) -> None:
    line = dirty_line(held_mib * MIB, Thresholds(50 * MIB, 100 * MIB))
    bar, figures = line.plain.split(" ", 1)
    assert (len(bar), bar.index("b"), bar.index("f")) == (40, 20, 30)
    assert bar.count("█") == filled
    assert figures.endswith("MiB dirty of 100 MiB") or held_mib == 0
    assert line.spans[0].style == style


def test_thresholds_of_zero_do_not_divide_by_zero() -> None:
    assert len(dirty_line(0, Thresholds(0, 0)).plain.split(" ")[0]) == 40


def test_a_terminal_that_cannot_move_its_cursor_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(UsageError, match="can move its cursor"):
        open_terminal()
