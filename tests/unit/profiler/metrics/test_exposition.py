# SPDX-License-Identifier: Apache-2.0
"""Prometheus's text: what its own parser and `promtool` read."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import BOUNDS_S, MetricKind, MetricValue
from profiler.metrics.exposition import text_of
from tests.unit.profiler.metrics.samples import BUCKETS, every_value


def test_every_value_arrives() -> None:
    read = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text_of(every_value()))
        for sample in family.samples
    }
    for each in every_value():
        if each.metric.kind is not MetricKind.HISTOGRAM:
            expected = 1 if each.metric.kind is MetricKind.INFO else 1.5
            assert (
                read[each.metric.name, frozenset(zip(each.metric.labels, each.labels))] == expected
            )


def test_buckets_are_cumulative_and_have_a_sum_and_a_count() -> None:
    [value] = [each for each in every_value() if each.metric is metrics.DISK_WRITES]
    [family] = text_string_to_metric_families(text_of([value]))
    buckets = [s for s in family.samples if s.name.endswith("_bucket")]
    assert [float(s.labels["le"]) for s in buckets] == [*BOUNDS_S, float("inf")]
    assert [s.value for s in buckets] == list(range(1, BUCKETS + 1))
    others = {s.name.rsplit("_", 1)[1]: s.value for s in family.samples[len(buckets) :]}
    assert others == {"sum": 3.0, "count": float(BUCKETS)}
    assert len(family.samples) == metrics.HISTOGRAM_SERIES


def test_a_histogram_is_no_number() -> None:
    [value] = [each.value for each in every_value() if each.metric is metrics.DISK_WRITES]
    with pytest.raises(TypeError, match="not a histogram"):
        text_of([MetricValue(metrics.UP, value)])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here: tools/setup test")
def test_promtool_accepts_it() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text_of(every_value()), text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
