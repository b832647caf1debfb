"""What a contract says of measured calls: each rule's value, and whether it is violated.

A value covers the whole run, whatever the contract's timeframe: a timeframe longer than the run
(the case study's 1000 s) makes the two the same. Values per timeframe are not built yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from contracts.model import Contract, Measurement, Quantity, Rule
from contracts.stats import CallStats
from contracts.units import format_count, format_duration, format_size


@dataclass(frozen=True)
class Finding:
    """A rule, the calls it covers, the value measured of them and what follows.

    `value` is in the measurement's base unit: bytes, calls or ns (a float for the mean). It is
    None for a latency of no calls, which violates nothing. `violated` is value > threshold.
    `superseded` marks a violated rule beside which another one, alike but for label and
    threshold, is violated with a larger threshold: Mistral logs only that one.
    """

    rule: Rule
    stats: CallStats
    value: float | None
    violated: bool
    superseded: bool = False

    @property
    def value_text(self) -> str:
        """The value for reading: `3.21 ms`, or `no calls`."""
        return "no calls" if self.value is None else format_figure(self.value, self.rule)

    @property
    def threshold_text(self) -> str:
        """The threshold for reading."""
        return format_figure(self.rule.threshold, self.rule)


def format_figure(value: float, rule: Rule) -> str:
    """A value or threshold of a rule, for reading, with its unit (a count has none)."""
    quantity = rule.measurement.quantity
    if quantity is Quantity.SIZE:
        return format_size(value)
    return format_count(int(value)) if quantity is Quantity.COUNT else format_duration(value)


def evaluate(contract: Contract, stats: Sequence[CallStats]) -> tuple[Finding, ...]:
    """One finding per rule, in the contract's order; `stats[i]` belongs to `contract.rules[i]`.

    Raises ValueError if there are more or fewer statistics than rules.
    """
    if len(stats) != len(contract.rules):
        raise ValueError(f"{len(stats)} statistics for {len(contract.rules)} rules")
    leading = _leading_thresholds(contract, stats)
    return tuple(
        _finding(rule, calls, leading.get(_alike(rule)) is not rule)
        for rule, calls in zip(contract.rules, stats)
    )


def measured_value(measurement: Measurement, calls: CallStats) -> float | None:
    """The value of a measurement in its base unit; None for a latency of no calls."""
    if measurement in (Measurement.BANDWIDTH, Measurement.SEEK_DISTANCE):
        return calls.bytes
    if measurement is Measurement.COUNT:
        return calls.count
    if calls.count == 0:
        return None
    if measurement in _PERCENTS:
        return calls.percentile_ns(_PERCENTS[measurement])
    return {
        Measurement.MEAN_LATENCY: calls.latency_mean_ns,
        Measurement.MIN_LATENCY: calls.latency_min_ns,
        Measurement.MAX_LATENCY: calls.latency_max_ns,
        Measurement.TOTAL_LATENCY: calls.latency_total_ns,
    }[measurement]


_PERCENTS = {
    Measurement.P50: 50.0,
    Measurement.P90: 90.0,
    Measurement.P99: 99.0,
    Measurement.P99_9: 99.9,
}


def _finding(rule: Rule, calls: CallStats, is_behind: bool) -> Finding:
    violated = _is_violated(rule, calls)
    value = measured_value(rule.measurement, calls)
    return Finding(rule, calls, value, violated, superseded=violated and is_behind)


def _is_violated(rule: Rule, calls: CallStats) -> bool:
    value = measured_value(rule.measurement, calls)
    return value is not None and value > rule.threshold


def _alike(rule: Rule) -> Hashable:
    """What rules share that differ in label and threshold only."""
    return rule.path, rule.call_types, rule.size_range, rule.measurement


def _leading_thresholds(contract: Contract, stats: Sequence[CallStats]) -> dict[Hashable, Rule]:
    """Among rules alike, the violated one with the largest threshold; the first of equal ones."""
    leading: dict[Hashable, Rule] = {}
    for rule, calls in zip(contract.rules, stats):
        if _is_violated(rule, calls):
            best = leading.setdefault(_alike(rule), rule)
            if rule.threshold > best.threshold:
                leading[_alike(rule)] = rule
    return leading
