# SPDX-License-Identifier: Apache-2.0
"""The notes of a profile besides its findings: losses, calls in flight and remaining threads."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from contracts.evaluate import evaluate
from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.stats import CallStats
from profiler.bpf.probes import scope
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.report.findings import print_findings
from profiler.report.snapshot import snapshot_lines

NOTHING = ProfileSnapshot((), Losses(), 0, StallStats(), 10**9)


def lines(threads_left: int = 0, in_flight: int = 0, **losses: int) -> list[str]:
    snapshot = dataclasses.replace(NOTHING, losses=Losses(**losses), in_flight=in_flight)
    return snapshot_lines(snapshot, threads_left)[1:]


def calls_line(stats: CallStats) -> str:
    """The line of the calls that a rule counts, below the table of findings."""
    rule = Rule("count", "/", (CallType.WRITE,), SizeRange(), Measurement.COUNT, 1)
    output = io.StringIO()
    print_findings(evaluate(Contract(10**9, (rule,)), (stats,)), Console(file=output, width=120))
    return next(line for line in output.getvalue().splitlines() if line.startswith("/: "))


def test_nothing_lost() -> None:
    assert lines() == ["Lost: nothing."]


@pytest.mark.parametrize("reason", Losses().by_reason)
def test_each_loss_is_said_in_the_singular_and_the_plural(reason: str) -> None:
    (one,), (two,) = lines(**{reason: 1}), lines(**{reason: 2})
    noun = one.split()[2]
    assert one.startswith("Lost: 1 ") and two.startswith("Lost: 2 ")
    assert two == one.replace("1", "2").replace(f" {noun} ", f" {noun}s ", 1) or "runs" in two


def test_figures_are_too_low_only_when_that_is_known() -> None:
    assert lines(probe_runs_missed=1)[0].endswith("The figures above may be too low.")
    assert lines(calls_not_recorded=1, probe_runs_missed=1)[0].endswith("are too low.")


def test_unfinished_calls_are_named() -> None:
    assert lines(in_flight=1)[1] == "In flight at the end, and not counted: 1 call."
    assert "2 threads of those profiled still run; " in lines(threads_left=2)[1]


def test_one_call_is_in_the_singular() -> None:
    assert calls_line(CallStats(count=1, bytes=5)).startswith("/: 1 write call, 5 B")
    assert calls_line(CallStats()).startswith("/: 0 write calls, 0 B")


class MovingTallies:
    """Tallies of one CPU on which a call begins and ends after every look."""

    def __init__(self) -> None:
        self.calls = 0

    def __getitem__(self, words: slice) -> list[int]:
        self.calls += 1
        return [self.calls]


def test_calls_in_flight_are_never_negative() -> None:
    assert scope.decode_in_flight(MovingTallies()) >= 0  # type: ignore[arg-type]
