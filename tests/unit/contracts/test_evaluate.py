# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from contracts.document import findings_document
from contracts.evaluate import evaluate
from contracts.loading import load_contract
from contracts.model import RESOURCES, CallType, Contract, Measurement, Quantity, Rule, SizeRange
from contracts.stats import CallStats, ResourceUsage
from profiler.report.findings import print_findings
from tests.unit.contract_strategies import rules, stats_of

CALLS = stats_of([2000, 3000, 10000], call_bytes=1 << 20, failed=1)


def contract_of(*limits: tuple[Measurement, int], path: str = "/") -> Contract:
    return Contract(
        10**12,
        tuple(
            Rule(f"rule{number}", path, (CallType.WRITE,), SizeRange(), measurement, threshold)
            for number, (measurement, threshold) in enumerate(limits)
        ),
    )


@pytest.mark.parametrize(
    ("measurement", "value", "text"),
    [
        (Measurement.BANDWIDTH, 3 << 20, "3.00 MiB"),
        (Measurement.COUNT, 3, "3"),
        (Measurement.MEAN_LATENCY, 5000.0, "5.00 µs"),
        (Measurement.MIN_LATENCY, 2000, "2.00 µs"),
        (Measurement.MAX_LATENCY, 10000, "10.0 µs"),
        (Measurement.TOTAL_LATENCY, 15000, "15.0 µs"),
        (Measurement.SEEK_DISTANCE, 3 << 20, "3.00 MiB"),
    ],
)
def test_every_measurement_is_violated_only_above_its_threshold(measurement, value, text):
    below, at = (
        evaluate(contract_of((measurement, threshold)), [CALLS])[0]
        for threshold in (int(value) - 1, int(value))
    )
    assert (below.value, below.value_text, below.violated) == (value, text, True)
    assert (at.value, at.threshold_text, at.violated) == (value, text, False)


OF_CALLS = [measurement for measurement in Measurement if measurement.is_of_calls]


@pytest.mark.parametrize("measurement", OF_CALLS)
def test_without_calls_nothing_is_violated_and_there_is_no_latency(measurement):
    (finding,) = evaluate(contract_of((measurement, 0)), [CallStats(failed=5)])
    assert not finding.violated
    if measurement.quantity is Quantity.LATENCY:
        assert (finding.value, finding.value_text) == (None, "no calls")
    else:
        assert finding.value == 0


def test_only_the_largest_violated_threshold_of_similar_rules_leads():
    count, limits = Measurement.COUNT, (1, 2, 100, 2, 0)
    findings = evaluate(contract_of(*((count, limit) for limit in limits)), [CALLS] * 5)
    assert [finding.violated for finding in findings] == [True, True, False, True, True]
    assert [finding.superseded for finding in findings] == [True, False, False, True, True]


def test_rules_that_differ_in_measurement_do_not_supersede_each_other():
    contract = contract_of((Measurement.MIN_LATENCY, 1), (Measurement.MAX_LATENCY, 2))
    assert not any(finding.superseded for finding in evaluate(contract, [CALLS] * 2))


#: 50 % of the calls at 1 µs, 90 % up to 2 µs, 99 % up to 4 µs, 99.9 % up to 8 µs, one at 16 µs.
LONG_TAIL = stats_of([1000] * 500 + [2000] * 400 + [4000] * 90 + [8000] * 9 + [16000])


@pytest.mark.parametrize(
    ("measurement", "latency_ns"),
    [
        (Measurement.P50, 1000),
        (Measurement.P90, 2000),
        (Measurement.P99, 4000),
        (Measurement.P99_9, 8000),
    ],
)
def test_a_percentile_is_the_latency_that_this_share_of_calls_does_not_exceed(
    measurement, latency_ns
):
    below, above = (
        evaluate(contract_of((measurement, threshold_ns)), [LONG_TAIL])[0]
        for threshold_ns in (latency_ns * 31 // 32 - 1, latency_ns * 33 // 32 + 1)
    )
    assert below.value == pytest.approx(latency_ns, rel=1 / 32)
    assert (below.violated, above.violated) == (True, False)


USAGE = ResourceUsage(
    memory_bytes=7 << 20,
    rss_bytes=4 << 20,
    vsize_bytes=9 << 30,
    user_ns=2_000_000,
    system_ns=500_000,
    host_user_ns=31,
    host_system_ns=32,
    host_iowait_ns=33,
)


@pytest.mark.parametrize(
    ("measurement", "value", "text"),
    [
        (Measurement.MEMORY, 7 << 20, "7.00 MiB"),
        (Measurement.MEMORY_RSS, 4 << 20, "4.00 MiB"),
        (Measurement.MEMORY_VSIZE, 9 << 30, "9.00 GiB"),
        (Measurement.USER_TIME, 2_000_000, "2.00 ms"),
        (Measurement.SYSTEM_TIME, 500_000, "500 µs"),
        (Measurement.CPU_TIME, 2_500_000, "2.50 ms"),
        (Measurement.HOST_CPU_USER_TIME, 31, "31 ns"),
        (Measurement.HOST_CPU_SYSTEM_TIME, 32, "32 ns"),
        (Measurement.HOST_CPU_IOWAIT_TIME, 33, "33 ns"),
    ],
)
def test_a_rule_of_resources_is_measured_on_the_usage(measurement, value, text):
    below, at = (
        evaluate(Contract(1, (resource_rule(measurement, limit),)), [CallStats()], USAGE)[0]
        for limit in (value - 1, value)
    )
    assert (below.value, below.value_text, below.violated) == (value, text, True)
    assert (at.value, at.threshold_text, at.violated) == (value, text, False)


def resource_rule(measurement: Measurement, threshold: int) -> Rule:
    return Rule(measurement.value, "/", (), SizeRange(), measurement, threshold)


def test_every_resource_has_its_own_figure_of_the_usage():
    contract = Contract(1, tuple(resource_rule(measurement, 0) for measurement in RESOURCES))
    findings = evaluate(contract, [CallStats()] * len(RESOURCES), USAGE)
    assert len({finding.value for finding in findings}) == len(RESOURCES)
    assert not any(finding.superseded for finding in findings)


@given(st.lists(rules(), min_size=1, max_size=8))
def test_each_group_of_similar_rules_has_one_leader_if_any_is_violated(drawn):
    findings = evaluate(Contract(1, tuple(drawn)), [CALLS] * len(drawn), USAGE)
    groups: dict[object, list] = {}
    for finding in findings:
        rule = finding.rule
        groups.setdefault(
            (rule.path, rule.call_types, rule.size_range, rule.measurement), []
        ).append(finding)
    for group in groups.values():
        violated = [finding for finding in group if finding.violated]
        leaders = [finding for finding in violated if not finding.superseded]
        assert len(leaders) == bool(violated)
        largest = max((finding.rule.threshold for finding in violated), default=None)
        assert all(leader.rule.threshold == largest for leader in leaders)


def test_statistics_must_match_the_rules():
    with pytest.raises(ValueError, match="2 statistics for 3 rules"):
        evaluate(load_contract(None), [CALLS] * 2)


def test_the_document_has_base_units_and_survives_json():
    document = findings_document(evaluate(load_contract(None), [CALLS] * 3))
    assert json.loads(json.dumps(document)) == document
    assert document[0] == {
        "label": "mean_lat_write",
        "path": "/",
        "call_types": "write",
        "size_range": "all",
        "measurement": "mean-latency",
        "value": 5000.0,
        "unit": "ns",
        "threshold": 1000,
        "violated": True,
        "superseded": False,
        "count": 3,
        "bytes": 3 << 20,
        "failed": 1,
        "latency_p50_ns": pytest.approx(3000, rel=1 / 32),
        "latency_p99_ns": pytest.approx(10000, rel=1 / 32),
    }
    assert [entry["unit"] for entry in document] == ["ns", "calls", "bytes"]


def test_the_document_without_calls_has_no_latencies():
    (entry,) = findings_document(evaluate(contract_of((Measurement.MIN_LATENCY, 1)), [CallStats()]))
    assert entry["value"] is entry["latency_p50_ns"] is entry["latency_p99_ns"] is None


def printed(
    contract: Contract,
    stats: list[CallStats],
    usage: ResourceUsage = ResourceUsage(),  # noqa: B008
    **times: int,
) -> str:
    output = io.StringIO()
    console = Console(file=output, width=80)
    print_findings(evaluate(contract, stats, usage), console, **times)
    return output.getvalue()


def test_the_terminal_shows_every_rule_on_a_line_of_80_columns():
    shown = printed(load_contract(None), [CALLS] * 3)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "mean_lat_write / all write mean-latency 5.00 µs 1.00 µs yes" in lines
    assert "num_write / all write count 3 1 yes" in lines
    assert "total_write / all write bandwidth 3.00 MiB 1 B yes" in lines
    assert shown.count("/: 3 write calls, 3.00 MiB, 1 failed; latency p50") == 1
    assert "covers the whole run." in shown


def test_memory_and_cpu_time_are_shown_without_path_and_calls():
    contract = Contract(1, (resource_rule(Measurement.MEMORY, 1 << 20),))
    shown = printed(contract, [CallStats()], USAGE)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "memory – – memory 7.00 MiB 1.00 MiB yes" in lines
    assert "calls" not in shown
    (entry,) = findings_document(evaluate(contract, [CallStats()], USAGE))
    assert (entry["call_types"], entry["value"], entry["unit"]) == ("none", 7 << 20, "bytes")
    assert entry["count"] is entry["bytes"] is entry["failed"] is None


@pytest.mark.parametrize(
    ("call_types", "line"),
    [
        ((CallType.READ, CallType.WRITE), "/: 3 read+write calls, 3.00 MiB, 1 failed; latency"),
        ((CallType.SEEK,), "/: 3 seek calls, distance 3.00 MiB, 1 failed; latency"),
        ((CallType.OPEN,), "/: 3 open calls, 1 failed; latency"),
        ((CallType.READ, CallType.SEEK), "/: 3 read+seek calls, 1 failed; latency"),
    ],
)
def test_the_calls_line_names_the_types_and_what_they_moved(call_types, line):
    rule = Rule("rule", "/", call_types, SizeRange(), Measurement.COUNT, 1)
    assert f"\n{line}" in printed(Contract(1, (rule,)), [CALLS])


def test_labels_and_paths_are_shown_as_text_not_as_markup_or_escapes():
    rule = Rule("[red]x\x1b[2J", "/[b]", (CallType.WRITE,), SizeRange(), Measurement.COUNT, 9)
    shown = printed(Contract(1, (rule,)), [CallStats()])
    assert r"[red]x\x1b[2J" in shown
    assert "\x1b" not in shown
    assert "/[b]: 0 write calls, 0 B, 0 failed\n" in shown


def test_a_run_longer_than_the_timeframe_is_reported():
    contract = contract_of((Measurement.COUNT, 1))
    assert "longer than the contract's timeframe of 1000s" in printed(
        contract, [CALLS], timeframe_ns=contract.timeframe_ns, elapsed_ns=2 * 10**12
    )
    assert "timeframe" not in printed(
        contract, [CALLS], timeframe_ns=contract.timeframe_ns, elapsed_ns=10**12
    )
