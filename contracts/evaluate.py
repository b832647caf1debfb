# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a contract against measured calls: each rule's value, and whether it is violated.

A value covers the same time as the statistics given: one timeframe or the whole run. If the
timeframe is longer than the run (the case study's 1000 s), the two are the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from contracts.model import PERCENTILES, Contract, Measurement, Quantity, Rule
from contracts.shared.units import format_count, format_duration, format_size
from contracts.stats import CallStats, ResourceUsage

_NO_USAGE = ResourceUsage()


@dataclass(frozen=True)
class Finding:
    """A rule, the calls that match it, the measured value and the outcome.

    `value` is in the measurement's base unit: bytes, calls or ns (a float for the mean). It is
    None for a latency without calls, which violates nothing. `violated` is value > threshold.
    `superseded` marks a violated rule if a rule that differs only in its label and a larger
    threshold is violated too: Mistral logs only that one.
    """

    rule: Rule
    stats: CallStats
    value: float | None
    violated: bool
    superseded: bool = False

    @property
    def value_text(self) -> str:
        """The value as text: `3.21 ms`, or `no calls`."""
        return "no calls" if self.value is None else format_figure(self.value, self.rule)

    @property
    def threshold_text(self) -> str:
        """The threshold as text."""
        return format_figure(self.rule.threshold, self.rule)


def format_figure(value: float, rule: Rule) -> str:
    """Return a value or threshold of a rule as text, with its unit (a count has none)."""
    quantity = rule.measurement.quantity
    if quantity is Quantity.SIZE:
        return format_size(value)
    return format_count(int(value)) if quantity is Quantity.COUNT else format_duration(value)


def evaluate(
    contract: Contract, stats: Sequence[CallStats], usage: ResourceUsage = _NO_USAGE
) -> tuple[Finding, ...]:
    """Return one finding per rule, in the contract's order; `stats[i]` is for `contract.rules[i]`.

    A rule on memory or CPU time is evaluated on `usage`; its entry in `stats` is an empty
    CallStats. Raises ValueError if there are more or fewer statistics than rules.
    """
    if len(stats) != len(contract.rules):
        raise ValueError(f"{len(stats)} statistics for {len(contract.rules)} rules")
    findings = [_finding(rule, calls, usage) for rule, calls in zip(contract.rules, stats)]
    leaders = _leaders(findings)
    return tuple(
        replace(finding, superseded=leaders[_alike(finding.rule)] is not finding)
        if finding.violated
        else finding
        for finding in findings
    )


def measured_value(
    measurement: Measurement, calls: CallStats, usage: ResourceUsage = _NO_USAGE
) -> float | None:
    """The value of a measurement in its base unit; None for a latency without calls."""
    if not measurement.is_of_calls:
        return _usage_value(measurement, usage)
    if measurement in (Measurement.BANDWIDTH, Measurement.SEEK_DISTANCE):
        return calls.bytes
    if measurement is Measurement.COUNT:
        return calls.count
    return _latency_ns(measurement, calls) if calls.count else None


def _latency_ns(measurement: Measurement, calls: CallStats) -> float:
    if measurement in PERCENTILES:
        return calls.percentile_ns(PERCENTILES[measurement])
    return {
        Measurement.MEAN_LATENCY: calls.latency_mean_ns,
        Measurement.MIN_LATENCY: calls.latency_min_ns,
        Measurement.MAX_LATENCY: calls.latency_max_ns,
        Measurement.TOTAL_LATENCY: calls.latency_total_ns,
    }[measurement]


def _usage_value(measurement: Measurement, usage: ResourceUsage) -> int:
    return {
        Measurement.MEMORY: usage.memory_bytes,
        Measurement.MEMORY_RSS: usage.rss_bytes,
        Measurement.MEMORY_VSIZE: usage.vsize_bytes,
        Measurement.USER_TIME: usage.user_ns,
        Measurement.SYSTEM_TIME: usage.system_ns,
        Measurement.CPU_TIME: usage.user_ns + usage.system_ns,
        Measurement.HOST_CPU_USER_TIME: usage.host_user_ns,
        Measurement.HOST_CPU_SYSTEM_TIME: usage.host_system_ns,
        Measurement.HOST_CPU_IOWAIT_TIME: usage.host_iowait_ns,
    }[measurement]


def _finding(rule: Rule, calls: CallStats, usage: ResourceUsage) -> Finding:
    value = measured_value(rule.measurement, calls, usage)
    return Finding(rule, calls, value, violated=value is not None and value > rule.threshold)


def _leaders(findings: Iterable[Finding]) -> dict[Hashable, Finding]:
    """The violated rule with the largest threshold (the first of equal ones) per `_alike` key."""
    leading: dict[Hashable, Finding] = {}
    for finding in findings:
        if finding.violated:
            best = leading.setdefault(_alike(finding.rule), finding)
            if finding.rule.threshold > best.rule.threshold:
                leading[_alike(finding.rule)] = finding
    return leading


def _alike(rule: Rule) -> Hashable:
    """The fields that are equal in rules that differ only in label and threshold."""
    return rule.path, rule.call_types, rule.size_range, rule.measurement
