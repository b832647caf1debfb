# SPDX-License-Identifier: Apache-2.0
"""Values as an OTLP request in JSON (opentelemetry-proto 1.x, metrics/v1): cumulative, from zero.

The names are Prometheus's without `_total`, with the unit apart, so that a collector that writes
Prometheus's names finds them again. 64-bit integers are text, as protobuf's JSON wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from profiler.metrics.definitions import (
    BOUNDS_S,
    Latencies,
    MetricDefinition,
    MetricKind,
    MetricValue,
    by_metric,
)

_CUMULATIVE = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
#: Units in UCUM, as OpenTelemetry writes them. Other metrics have none: collectors append `_ratio`
#: to the name of a gauge whose unit is "1" ("Prometheus and OpenMetrics Compatibility").
_UNITS = {"seconds": "s", "bytes": "By", "": ""}
_NS_PER_S = 10**9


def request_of(
    values: Iterable[MetricValue],
    resource: Mapping[str, str],
    version: str,
    *,
    start_unix_ns: int,
    now_unix_ns: int,
) -> dict[str, Any]:
    """Return an ExportMetricsServiceRequest; counters began at 0 at `start_unix_ns`."""
    times = {"startTimeUnixNano": str(start_unix_ns), "timeUnixNano": str(now_unix_ns)}
    scope = {
        "scope": {"name": "writewise", "version": version},
        "metrics": [_metric(metric, own, times) for metric, own in by_metric(values).items()],
    }
    return {
        "resourceMetrics": [
            {"resource": {"attributes": _attributes(resource)}, "scopeMetrics": [scope]}
        ]
    }


def _metric(
    metric: MetricDefinition, values: Sequence[MetricValue], times: Mapping[str, str]
) -> dict[str, Any]:
    point = _POINTS[metric.kind]
    points = [
        {"attributes": _attributes(dict(zip(metric.labels, each.labels))), **times, **point(each)}
        for each in values
    ]
    return {
        "name": metric.name.removesuffix("_total"),
        "description": metric.help,
        "unit": _UNITS[metric.unit],
        **_data(metric.kind, points),
    }


def _data(kind: MetricKind, points: list[dict[str, Any]]) -> dict[str, Any]:
    if kind is MetricKind.COUNTER:
        return {
            "sum": {
                "dataPoints": points,
                "aggregationTemporality": _CUMULATIVE,
                "isMonotonic": True,
            }
        }
    if kind is MetricKind.HISTOGRAM:
        return {"histogram": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}}
    return {"gauge": {"dataPoints": points}}


def _number(value: MetricValue) -> dict[str, Any]:
    return {"asDouble": value.value}


def _histogram(value: MetricValue) -> dict[str, Any]:
    if not isinstance(value.value, Latencies):
        raise TypeError(f"{value.metric.name} is a histogram")
    return {
        "count": str(sum(value.value.counts)),
        "sum": value.value.total_ns / _NS_PER_S,
        "bucketCounts": [str(count) for count in value.value.counts],
        "explicitBounds": list(BOUNDS_S),
    }


def _one(_: MetricValue) -> dict[str, Any]:
    return {"asDouble": 1.0}


_POINTS: dict[MetricKind, Callable[[MetricValue], dict[str, Any]]] = {
    MetricKind.COUNTER: _number,
    MetricKind.GAUGE: _number,
    MetricKind.HISTOGRAM: _histogram,
    MetricKind.INFO: _one,
}


def _attributes(named: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in named.items()]
