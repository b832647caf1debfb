# SPDX-License-Identifier: Apache-2.0
"""The values of a watch: each from its source, counters that never go back, bounded series."""

from __future__ import annotations

import os

from contracts.model import MAX_RULES
from contracts.stats import CallStats
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.throttling import Throttled
from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import most_series
from profiler.metrics.exposition import text_of
from sysctl.host.governor_state import BurstSums, GovernorState
from sysctl.host.system import System
from tests.unit.profiler.service.watching import PAGE, SECOND_NS, Watched, buckets, contract

SLOT = ("write", "/data", "-4095B")


def test_stalls_and_write_back(tmp_path) -> None:
    watched = Watched(tmp_path)
    watched.stalls.counted = Throttled(pauses=3, planned_ns=600_000_000)
    watched.stalls.missed = 2
    watched.set_dirty(dirty=10, writeback=5)
    found = watched.values()
    assert found["writewise_throttle_seconds_total",] == 0.6
    assert found["writewise_throttle_pauses_total",] == 3
    assert found["writewise_dirty_memory_bytes", "dirty"] == 10 * PAGE
    assert found["writewise_dirty_memory_bytes", "writeback"] == 5 * PAGE
    assert found["writewise_dirty_threshold_bytes", "freerun"] == 150 * PAGE
    assert found["writewise_lost_events_total", "probe_runs_missed"] == 2
    assert found["writewise_disk_written_bytes_total", "vd0"] == 8192
    assert sum(found["writewise_disk_write_duration_seconds", "vd0"].counts) == 2
    assert found["writewise_up",] == 1


def test_the_time_above_freerun_is_that_of_the_samples(tmp_path) -> None:
    watched = Watched(tmp_path)
    for second, dirty in enumerate([0, 151, 151, 150, 0, 999]):
        watched.now_ns = second * SECOND_NS
        watched.set_dirty(dirty)
        watched.watch.sample()
    assert watched.values()["writewise_above_freerun_seconds_total",] == 2
    watched.now_ns += 3600 * SECOND_NS  # the host was suspended
    watched.watch.sample()
    assert watched.values()["writewise_above_freerun_seconds_total",] == 7


def test_calls_stay_counted_after_the_probes_are_detached(tmp_path) -> None:
    watched = Watched(tmp_path, contract())
    assert watched.value("call_bytes_total", *SLOT) == 0
    for attached in (1, 2):
        watched.calls.attach(0)
        session = watched.sessions[-1]
        session.count(
            count=3, bytes=10, failed=1, latency_total_ns=4 * SECOND_NS,
            throttled_ns=SECOND_NS, buckets=buckets(300),
        )  # fmt: skip
        session.losses = Losses(paths_too_deep=1)
        found = watched.values()
        assert found["writewise_call_probes_attached",] == 1
        assert watched.value("call_bytes_total", *SLOT) == 10 * attached
        watched.calls.beat.run()  # the end of a timeframe
        watched.calls.detach()
        assert not session.is_open
        found = watched.values()
        assert found["writewise_call_probes_attached",] == 0
        assert watched.value("call_bytes_total", *SLOT) == 10 * attached
        assert watched.value("call_failures_total", *SLOT) == attached
        assert watched.value("call_time_seconds_total", *SLOT, "throttling") == attached
        assert watched.value("call_time_seconds_total", *SLOT, "on_cpu") == 3 * attached
        assert found["writewise_lost_events_total", "paths_too_deep"] == attached
        assert found["writewise_contract_timeframes_total",] == 2 * attached
        assert found["writewise_contract_violated_timeframes_total", "rule0"] == attached
        assert ("writewise_contract_threshold_ratio", "rule0") not in found


def test_the_ratio_is_that_of_the_last_timeframe(tmp_path) -> None:
    watched = Watched(tmp_path, contract())
    watched.calls.attach(0)
    for count, ratio in ((5, 2.5), (1, 0.5)):
        watched.sessions[0].count(count=count)
        watched.calls.beat.run()
        assert watched.values()["writewise_contract_threshold_ratio", "rule0"] == ratio


def test_a_rest_that_shrinks_while_a_call_is_counted_is_no_counter_that_began_anew(
    tmp_path,
) -> None:
    watched = Watched(tmp_path, contract())
    watched.calls.attach(0)
    session = watched.sessions[0]
    seen = []
    for throttled_ns in (0, 900_000_000, 900_000_000):  # the total was counted before its wait
        session.stats = [CallStats(count=1, latency_total_ns=SECOND_NS, throttled_ns=throttled_ns)]
        seen.append(watched.value("call_time_seconds_total", *SLOT, "on_cpu"))
    assert seen == [1, 1, 1]


def test_a_failure_is_up_0_and_a_sentence(tmp_path) -> None:
    watched = Watched(tmp_path)
    watched.watch.failure = "calls cannot be counted: no"
    assert watched.values()["writewise_up",] == 0
    assert watched.watch.problems == ("calls cannot be counted: no",)


def state(pid, **changes):
    system = System()
    return GovernorState(
        pid=pid,
        start_ticks=system.process_start_ticks(pid) or 0,
        boot_id=system.boot_id(),
        purpose="test",
        since="",
        written_at="",
        volumes=("/data",),
        max_at_risk_bytes=None,
        max_raise_s=None,
        at_rest={},
        is_raised=True,
        sums=BurstSums(bursts=2, arrived_bytes=7, raised_s=1.5, saved_s=2.5),
        **changes,
    )


def test_the_governor_is_shown_from_its_file(tmp_path) -> None:
    found = Watched(tmp_path, governor=state(os.getpid())).values()
    names = ("running", "raised", "bursts_total", "arrived_bytes_total", "raised_seconds_total")
    shown = [found[f"writewise_govern_{name}",] for name in (*names, "saved_seconds_total")]
    assert shown == [1, 1, 2, 7, 1.5, 2.5]
    ended = Watched(tmp_path, governor=state(os.getpid(), ended_at="2026-11-23")).values()
    assert (ended["writewise_govern_running",], ended["writewise_govern_raised",]) == (0, 0)
    assert not any(name.startswith("writewise_govern") for name, *_ in Watched(tmp_path).values())


def test_series_are_as_many_as_the_bound_says(tmp_path) -> None:
    for slots, disks in ((0, 0), (1, 1), (MAX_RULES, metrics.MOST_DISKS)):
        watched = Watched(tmp_path, contract(slots) if slots else None, disks)
        if slots:
            watched.calls.attach(0)
            for rule in range(slots):
                watched.sessions[0].count(rule, count=1, latency_total_ns=9)
            watched.calls.beat.run()
        series = [
            line
            for line in text_of(watched.watch.values()).splitlines()
            if not line.startswith("#")
        ]
        without_ebs = most_series(slots, disks, slots) - disks * (len(metrics.LIMITS) + 1)
        assert len(series) == without_ebs <= metrics.HARD_CAP
