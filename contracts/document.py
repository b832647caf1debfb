# SPDX-License-Identifier: Apache-2.0
"""Findings of a contract as plain data, for JSON."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.evaluate import Finding
from contracts.fields import size_range_text
from contracts.model import Quantity
from contracts.vocabulary import call_types_text

_UNITS = {Quantity.SIZE: "bytes", Quantity.LATENCY: "ns", Quantity.COUNT: "calls"}


def findings_document(findings: Sequence[Finding]) -> list[dict[str, object]]:
    """The findings as plain data, one entry per rule in the contract's order.

    `value` and `threshold` are in `unit` (bytes, calls or ns). `count`, `bytes` and the
    percentiles cover all calls that match the rule, `failed` those of them that failed. Latencies
    are None if there were no calls, `bytes` is None for calls without a size. A rule on memory or
    CPU time has None for `count`, `bytes`, `failed` and the percentiles.
    """
    return [_finding_document(finding) for finding in findings]


def _finding_document(finding: Finding) -> dict[str, object]:
    rule, stats = finding.rule, finding.stats
    return {
        "label": rule.label,
        "path": rule.path,
        "call_types": call_types_text(rule.call_types),
        "size_range": size_range_text(rule.size_range),
        "measurement": rule.measurement.value,
        "value": finding.value,
        "unit": _UNITS[rule.measurement.quantity],
        "threshold": rule.threshold,
        "violated": finding.violated,
        "superseded": finding.superseded,
        "count": stats.count if rule.slot else None,
        "bytes": stats.bytes if rule.slot and rule.slot.moves_bytes else None,
        "failed": stats.failed if rule.slot else None,
        "latency_p50_ns": stats.percentile_ns(50) if stats.count else None,
        "latency_p99_ns": stats.percentile_ns(99) if stats.count else None,
    }
