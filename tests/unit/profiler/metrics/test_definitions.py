# SPDX-License-Identifier: Apache-2.0
"""Names, the bound on series, and the coarse histogram."""

from __future__ import annotations

import re

import pytest

from contracts.model import MAX_RULES, MAX_SLOTS
from contracts.stats import BUCKET_COUNT, bucket_bounds_ns
from profiler.bpf.probes.scope import Losses
from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import BOUND_EXPONENTS, MetricKind, latencies, most_series

EVERY = (*metrics.OF_A_SERVICE, *metrics.OF_A_BATCH)


def counted(latency_ns: int) -> tuple[int, ...]:
    """The coarse counts of one call."""
    fine = [0] * BUCKET_COUNT
    index = next(i for i in range(BUCKET_COUNT) if latency_ns < bucket_bounds_ns(i)[1])
    fine[index] = 1
    return latencies(tuple(fine), latency_ns).counts


def test_names_are_as_prometheus_wants_them() -> None:
    names = [each.name for each in EVERY]
    assert len(set(names)) == len(names)
    for each in EVERY:
        assert re.fullmatch(r"writewise_[a-z_]+", each.name)
        assert (each.kind is MetricKind.COUNTER) == each.name.endswith("_total")
        assert each.help.endswith(".")


def test_no_label_is_something_that_others_choose() -> None:
    labels = {label for each in EVERY for label in each.labels}
    chosen = {"version", "bcc", "state", "threshold", "device", "limit", "call", "path", "sizes"}
    assert labels == chosen | {"cause", "rule", "reason"}


def test_every_reason_of_a_loss_is_known() -> None:
    not_of_a_whole_host = {"threads_not_followed", "calls_without_entry"}
    assert set(metrics.REASONS) == set(Losses().by_reason) - not_of_a_whole_host


def test_the_bound_is_that_of_the_docs() -> None:
    assert most_series(1, 1, 3) == 20 + 36 + 34 + 6 == 96
    largest = most_series(MAX_SLOTS, metrics.MOST_DISKS, MAX_RULES, governed=True)
    assert largest == 1850 <= metrics.HARD_CAP


@pytest.mark.parametrize("exponent", BOUND_EXPONENTS)
def test_a_latency_is_below_its_bound(exponent: int) -> None:
    at = exponent - BOUND_EXPONENTS[0]
    assert counted(2**exponent - 1)[at] == 1
    assert counted(2**exponent)[at + 1] == 1  # exactly on it: one bucket higher, as documented


def test_the_ends_of_the_histogram() -> None:
    assert counted(0)[0] == counted(1023)[0] == 1
    assert counted(2**41)[-1] == 1
    assert latencies((), 0).counts == (0,) * (len(BOUND_EXPONENTS) + 1)
