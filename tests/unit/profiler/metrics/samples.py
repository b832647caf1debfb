# SPDX-License-Identifier: Apache-2.0
"""Values of every metric, for the tests of the exporters."""

from __future__ import annotations

from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import Latencies, MetricKind, MetricValue

BUCKETS = len(metrics.BOUND_EXPONENTS) + 1


def every_value() -> list[MetricValue]:
    """Return a value of each metric of a service; the labels have what needs escapes."""
    return [
        MetricValue(
            each,
            Latencies((1,) * BUCKETS, 3 * 10**9) if each.kind is MetricKind.HISTOGRAM else 1.5,
            tuple(f'a "b"\\ é {label}' for label in each.labels),
        )
        for each in metrics.OF_A_SERVICE
    ]
