# SPDX-License-Identifier: Apache-2.0
"""The report of a profile: what is said of timeframes, and a document that keeps to its schema."""

from __future__ import annotations

import io
import json
from datetime import datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.evaluate import evaluate
from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.stats import CallStats, ResourceUsage
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.cli.json_documents import emit
from profiler.recording.frame_tally import FrameTally
from profiler.recording.recording import Profile
from profiler.recording.timeframes import Frame, merge_snapshots
from profiler.report.profile import frames_lines, print_profile, profile_document
from profiler.watch.causes import WhyInputs
from profiler.watch.timeline import Sample, Timeline
from sysctl.knobs.writeback import Thresholds
from tests.places import REPOSITORY
from tests.unit.contract_strategies import contracts, stats_of

SECOND_NS = 10**9
SCHEMA = json.loads(REPOSITORY.joinpath("docs/reference/profile.schema.json").read_text())
USAGE = ResourceUsage(*range(5, 13))
THRESHOLDS = Thresholds(background_bytes=500, dirty_bytes=1000)
SAMPLES = (Sample(0, 10, 0, THRESHOLDS), Sample(SECOND_NS, 700, 100, THRESHOLDS, 1, 2))
TIMELINE = Timeline(SAMPLES, peak=SAMPLES[1], crossing=SAMPLES[1])
COUNTS = Rule("counts", "/", (CallType.WRITE,), SizeRange(), Measurement.COUNT, 2)
MEMORY = Rule("memory", "/", (), SizeRange(), Measurement.MEMORY, 4)


def profile_of(contract: Contract, *calls: int) -> Profile:
    """Of frames with so many calls for each rule of calls, each of a microsecond."""
    tally, snapshots = FrameTally(), []
    for number, count in enumerate(calls, 1):
        stats = tuple(
            stats_of([1000] * count) if rule.slot else CallStats() for rule in contract.rules
        )
        snapshot = ProfileSnapshot(stats, Losses(), 0, StallStats(), SECOND_NS)
        snapshots.append(snapshot)
        findings = evaluate(contract, stats, USAGE)
        start_ns = (number - 1) * SECOND_NS
        tally(Frame(number, start_ns, datetime(2026, 11, 21), snapshot, findings))
    total = merge_snapshots(snapshots)
    findings = tally.judge(evaluate(contract, total.stats, USAGE))
    why = WhyInputs(stats_of([1000]), SECOND_NS, StallStats(), timeline=TIMELINE)
    return Profile(contract, total, USAGE, findings, tally, threads_left=0, why=why)


def document_of(profile: Profile) -> dict[str, Any]:
    file = io.StringIO()
    emit("profile", profile_document(profile), file)
    document: dict[str, Any] = json.loads(file.getvalue())
    return document


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@given(contracts(), st.lists(st.integers(0, 50), min_size=1, max_size=4))
def test_the_document_keeps_to_its_schema(contract: Contract, calls: list[int]) -> None:
    jsonschema.validate(document_of(profile_of(contract, *calls)), SCHEMA)


@pytest.mark.parametrize("name", SCHEMA["required"])
def test_a_document_without_one_of_its_parts_does_not(name: str) -> None:
    document = document_of(profile_of(Contract(SECOND_NS, (COUNTS,)), 3))
    del document[name]
    with pytest.raises(jsonschema.ValidationError, match=name):
        jsonschema.validate(document, SCHEMA)


def test_the_document_of_two_timeframes() -> None:
    document = document_of(profile_of(Contract(SECOND_NS, (COUNTS, MEMORY)), 1, 3))
    assert document["timeframes"] == {
        "count": 2,
        "rules": [
            {"label": "counts", "violated": 1, "largest": 3},
            {"label": "memory", "violated": 2, "largest": 5},
        ],
        "violations": [
            {
                "number": 1,
                "start_ns": 0,
                "elapsed_ns": SECOND_NS,
                "rules": [{"label": "memory", "value": 5}],
            },
            {
                "number": 2,
                "start_ns": SECOND_NS,
                "elapsed_ns": SECOND_NS,
                "rules": [{"label": "counts", "value": 3}, {"label": "memory", "value": 5}],
            },
        ],
        "violations_left_out": 0,
    }
    causes = document["findings"][0]["causes"]
    assert causes["total_ns"] == causes["on_cpu_ns"] == 4000
    assert document["resources"]["host_iowait_ns"] == 12


def test_resources_that_no_rule_asked_for_are_not_there() -> None:
    assert document_of(profile_of(Contract(SECOND_NS, (COUNTS,)), 3))["resources"] is None


def test_timeframes_are_reported() -> None:
    contract = Contract(SECOND_NS, (COUNTS, MEMORY))
    assert frames_lines(profile_of(contract, 9)) == []
    assert frames_lines(profile_of(contract, 1, 1200)) == [
        "Rules are judged in each of 2 timeframes of 1s, the last one the rest:",
        "  counts: violated in 1 timeframe, at most 1,200 in one",
        "  memory: violated in 2 timeframes, at most 5 B in one",
    ]
    quiet = frames_lines(profile_of(Contract(SECOND_NS, (COUNTS,)), 1, 2))
    assert quiet == [
        "Rules are judged in each of 2 timeframes of 1s, the last one the rest; "
        "none was violated in any."
    ]


def test_the_report_says_the_frames_verdict_beside_the_run_s_value() -> None:
    file = io.StringIO()
    print_profile(profile_of(Contract(SECOND_NS, (COUNTS,)), 2, 2), file)
    row = next(line for line in file.getvalue().splitlines() if line.startswith("counts"))
    assert row.split() == ["counts", "/", "all", "write", "count", "4", "2", "no"]
    assert "Lost: nothing." in file.getvalue()
