# SPDX-License-Identifier: Apache-2.0
"""The record of a pull, from made-up measurements."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from contracts.causes import Cause
from contracts.shared.errors import WritewiseError
from contracts.stats import bucket_bounds_ns
from profiler.bpf.probes.block import DeviceTotals
from profiler.fleet import measured as measured_record
from profiler.fleet import node_state
from profiler.fleet.measured import PullRecorder, rates_of
from profiler.fleet.node_state import HostCounts, counts_now
from profiler.fleet.reading import read_records
from profiler.fleet.record import PullCounts, RolloutArm
from profiler.pull.result import Verification
from profiler.report.origin import circumstances_of_pull
from profiler.watch.causes import WhyInputs
from profiler.watch.timeline import Sample, Timeline
from sysctl.apply.history import History
from sysctl.host.changes import MountOriginal
from sysctl.host.sysctls import read_sysctl
from sysctl.host.system import System
from sysctl.knobs.writeback import Thresholds
from tests.unit.contract_strategies import stats_of
from tests.unit.profiler.report.test_pulls import MEASURED, MIB

SECOND = 10**9
CALLS = replace(stats_of([1000, 1000, 2 * SECOND]), throttled_ns=SECOND)


def sample(at_s, held_mib, written_mib):
    totals = DeviceTotals(written_bytes=written_mib * MIB)
    return Sample(
        round(at_s * SECOND), held_mib * MIB, 0, Thresholds(100 * MIB, 200 * MIB), devices=(totals,)
    )


def timeline(samples):
    peak = max(samples, key=lambda each: each.held_bytes)
    return Timeline(tuple(samples), peak, None, ("nvme1n1",))


#: 300 MiB in 2 s; the device writes 50 MiB/s from 100 MiB on.
COURSE = timeline([sample(at / 20, 15 * at // 2, 0) for at in range(41)])
GOOD = replace(
    MEASURED,
    result=replace(MEASURED.result, failures=()),
    verification=Verification({"MD5": 3}, (), 0.1),
    why=WhyInputs(CALLS, 2 * SECOND, MEASURED.snapshot.stall, timeline=COURSE),
)


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(0o700)
    return PullRecorder(circumstances_of_pull(tmp_path, "direct"))


def test_the_record_of_a_pull_is_one_that_is_read(recorder):
    record = recorder.record(GOOD)
    (found,) = read_records(record.packed())
    assert found.to_json() == record.to_json()
    assert found.pulls == PullCounts(1, 0, 300 * MIB, 2 * SECOND, 6 * SECOND)
    assert found.node_class.client == "direct" and found.node_class.file_system
    assert found.settings == recorder.circumstances.node_class.present


def test_its_histograms_are_those_of_the_pull(recorder):
    found = recorder.record(GOOD).histograms
    assert sum(calls for _, calls in found["write_latency_ns"]) == 3
    for name, time_ns in (("return_time_ns", 2 * SECOND), ("durable_time_ns", 6 * SECOND)):
        ((index, calls),) = found[name]
        low, high = bucket_bounds_ns(index)
        assert calls == 1 and low <= time_ns < high


def test_it_has_the_writers_time_by_cause(recorder):
    record = recorder.record(GOOD)
    assert record.stalls[Cause.THROTTLING] == SECOND
    assert sum(record.stalls.values()) == CALLS.latency_total_ns
    assert record.writer_ns == 2 * SECOND * GOOD.writing_threads
    assert record.peak_at_risk_bytes == 300 * MIB


def test_it_has_what_the_model_needs(recorder):
    rates = recorder.record(GOOD).rates
    assert rates is not None
    assert rates.source_bytes_per_s == pytest.approx(150 * MIB, rel=0.05)
    # the device begins at the background threshold, after 100/150 s, and is done after 6 s
    assert rates.device_bytes_per_s == pytest.approx(300 / (6 - 100 / 150) * MIB, rel=0.05)
    assert rates.burst_bytes == 300 * MIB


def test_a_pull_that_shows_no_rates_is_recorded_without(recorder):
    short = replace(GOOD, why=replace(GOOD.why, timeline=None))
    assert rates_of(short, recorder.circumstances) is None
    assert recorder.record(short).rates is None


def test_a_pull_with_failures_counts_as_failed(recorder):
    record = recorder.record(MEASURED)
    assert record.pulls == PullCounts(1, 1)
    assert "return_time_ns" not in record.histograms


def test_a_pull_that_ended_with_an_error_counts_as_failed(recorder):
    (found,) = read_records(recorder.record(None).packed())
    assert (found.pulls, found.writer_ns, found.rates) == (PullCounts(1, 1), 0, None)


def test_it_says_nothing_of_host_paths_and_sources(recorder, tmp_path):
    text = json.dumps(recorder.record(GOOD).to_json())
    assert os.uname().nodename not in text.replace(recorder.record(GOOD).node, "")
    assert str(tmp_path) not in text and "/" not in text.replace("0.1/", "")


def test_the_roll_out_of_the_node_is_in_it(recorder, tmp_path):
    marker = tmp_path / "state/rollout.json"
    marker.write_text('{"id": "kernel-6", "stage": 2, "arm": "treated"}\n')
    record = recorder.record(GOOD)
    assert record.rollout == RolloutArm("kernel-6", 2, "treated")
    assert record.verify == "not applied"  # nothing is applied in this state directory
    marker.write_text('{"id": "kernel-6", "stage": 2, "arm": "control"}\n')
    assert recorder.record(GOOD).verify is None


@pytest.mark.parametrize(
    ("wrong_by", "said"), [((0, 0), "in force"), ((0, 1), "changed"), ((1, 1), "not applied")]
)
def test_what_the_engine_of_a_roll_out_set_is_verified(recorder, tmp_path, wrong_by, said):
    names = ("vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs")
    settings = {name: read_sysctl(System(), name) + wrong for name, wrong in zip(names, wrong_by)}
    data = {"id": "kernel-6", "stage": 2, "arm": "treated", "settings": settings}
    (tmp_path / "state/rollout.json").write_text(json.dumps(data))
    assert recorder.record(GOOD).verify == said


def test_a_control_node_reports_only_the_settings_of_the_roll_out(recorder, tmp_path, monkeypatch):
    """What `apply` set there before the roll-out is no contradiction."""
    name = "vm.dirty_expire_centisecs"
    present = read_sysctl(System(), name)
    monkeypatch.setattr(node_state, "check_compliance", lambda *_: [])
    applied = History(changes=(MountOriginal("/data", "/dev/sdf", "ext4", (), ""),))
    monkeypatch.setattr(node_state, "read_history", lambda _: applied)
    monkeypatch.setattr(node_state, "wanted_by_applied", lambda *_: None)
    marker, said = tmp_path / "state/rollout.json", []
    for settings in ({}, {name: present + 1}, {name: present}):
        data = {"id": "kernel-6", "stage": 2, "arm": "control", "settings": settings}
        marker.write_text(json.dumps(data))
        said.append(recorder.record(GOOD).verify)
    assert said == [None, None, "in force"]


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "[]", "x", '{"id": 1, "stage": null, "arm": 2}'),
        '{"id": "a", "stage": 1, "arm": "treated", "settings": {"../../etc/passwd": 1}}',
        '{"id": "a", "stage": 1, "arm": "treated", "settings": [1]}',
    ],
)
def test_an_invalid_roll_out_is_an_error(recorder, tmp_path, text):
    (tmp_path / "state/rollout.json").write_text(text)
    with pytest.raises(WritewiseError, match="roll-out"):
        recorder.record(GOOD)


def test_the_hosts_counters_are_those_of_the_pull(tmp_path, monkeypatch):
    counts = iter([HostCounts(3, 1000), HostCounts(5, 1750)])
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(measured_record, "counts_now", lambda _: next(counts))
    tmp_path.chmod(0o700)
    record = PullRecorder(circumstances_of_pull(tmp_path)).record(GOOD)
    assert (record.oom_kills, record.memory_psi_full_us) == (2, 750)


def test_a_host_that_does_not_count_is_unknown(tmp_path):
    found = counts_now(System(tmp_path))
    assert (found.oom_kills, found.memory_psi_full_us) == (None, None)
