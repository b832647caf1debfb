# SPDX-License-Identifier: Apache-2.0
"""Values as Prometheus reads them: families of prometheus_client, and text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from profiler.metrics.definitions import (
    BOUNDS_S,
    Latencies,
    MetricDefinition,
    MetricKind,
    MetricValue,
    by_metric,
)

_LE = (*map(floatToGoString, BOUNDS_S), "+Inf")
_NS_PER_S = 10**9


def families(values: Iterable[MetricValue]) -> Iterator[Metric]:
    """Yield a family for each metric, in the order of the first value of each."""
    for metric, own in by_metric(values).items():
        yield _FAMILIES[metric.kind](metric, own)


def _counter(metric: MetricDefinition, values: Sequence[MetricValue]) -> Metric:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for each in values:
        family.add_metric(each.labels, _number(each))
    return family


def _gauge(metric: MetricDefinition, values: Sequence[MetricValue]) -> Metric:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for each in values:
        family.add_metric(each.labels, _number(each))
    return family


def _histogram(metric: MetricDefinition, values: Sequence[MetricValue]) -> Metric:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for each in values:
        if isinstance(each.value, Latencies):
            counted = itertools.accumulate(each.value.counts)
            family.add_metric(each.labels, list(zip(_LE, counted)), each.value.total_ns / _NS_PER_S)
    return family


def _info(metric: MetricDefinition, values: Sequence[MetricValue]) -> Metric:
    family = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
    for each in values:
        family.add_metric((), dict(zip(metric.labels, each.labels)))
    return family


_FAMILIES: dict[MetricKind, Callable[[MetricDefinition, Sequence[MetricValue]], Metric]] = {
    MetricKind.COUNTER: _counter,
    MetricKind.GAUGE: _gauge,
    MetricKind.HISTOGRAM: _histogram,
    MetricKind.INFO: _info,
}


def _number(value: MetricValue) -> float:
    if isinstance(value.value, Latencies):
        raise TypeError(f"{value.metric.name} is not a histogram")
    return value.value


class ValueCollector(Collector):
    """Collects what `read` returns at each scrape."""

    def __init__(self, read: Callable[[], Iterable[MetricValue]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the families of the values now."""
        yield from families(self._read())


def registry_of(read: Callable[[], Iterable[MetricValue]]) -> CollectorRegistry:
    """Return a registry with these values alone; nothing is read before the first scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ValueCollector(read))
    return registry


def text_of(values: Iterable[MetricValue]) -> str:
    """Return the values in Prometheus's text format, without timestamps."""
    kept = list(values)
    return generate_latest(registry_of(lambda: kept)).decode()
