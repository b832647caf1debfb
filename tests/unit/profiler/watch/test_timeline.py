# SPDX-License-Identifier: Apache-2.0
"""The timeline over a /proc that the test writes, at times that the test sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from profiler.bpf.probes.block import DeviceTotals
from profiler.report.timeline import timeline_document
from profiler.watch.pressure import read_pressure
from profiler.watch.timeline import Timeline, TimelineRecorder
from sysctl.knobs.writeback import PAGE_BYTES

S = 10**9
PRESSURE = (
    "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"
)


class Host:
    """Background 100 pages, dirty 300 (so freerun 200) unless set otherwise."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        (proc / "pressure").mkdir()
        self.now_ns = 5 * S  # not the run's zero
        self.totals: tuple[DeviceTotals, ...] = ()
        self.set()

    def set(self, dirty: int = 0, writeback: int = 0, thresholds: Sequence[int] = (100, 300),
            io_us: Sequence[int] = (0, 0)) -> None:  # fmt: skip
        (self.proc / "vmstat").write_text(
            f"nr_free_pages 1\nnr_dirty {dirty}\nnr_writeback {writeback}\n"
            f"nr_dirty_threshold {thresholds[1]}\nnr_dirty_background_threshold {thresholds[0]}\n"
        )
        (self.proc / "pressure/io").write_text(PRESSURE.format(some=io_us[0], full=io_us[1]))

    def recorder(self, devices: Sequence[str] = (), max_samples: int = 100) -> TimelineRecorder:
        return TimelineRecorder(
            devices,
            lambda: self.totals,
            max_samples=max_samples,
            proc=self.proc,
            clock_ns=lambda: self.now_ns,
        )

    def record(self, *dirty_pages: int) -> Timeline:
        """A sample a second, with so many dirty pages each."""
        recorder = self.recorder()
        for dirty in dirty_pages:
            self.set(dirty)
            recorder.sample()
            self.now_ns += S
        return recorder.timeline()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_peak_crossing_and_time_above(host: Host) -> None:
    timeline = host.record(10, 150, 201, 250, 150, 220, 20)
    assert timeline.duration_ns == 6 * S
    assert timeline.peak.held_bytes == 250 * PAGE_BYTES
    assert timeline.peak_added_bytes == 240 * PAGE_BYTES
    assert timeline.crossing is not None
    assert timeline.crossing.time_ns == 2 * S
    assert timeline.crossing.thresholds.freerun_bytes == 200 * PAGE_BYTES
    assert timeline.above_freerun_ns == 3 * S  # from 2 to 4 and from 5 to 6


def test_at_the_ceiling_is_not_above_it(host: Host) -> None:
    timeline = host.record(200, 200)
    assert timeline.crossing is None
    assert timeline.above_freerun_ns == 0


def test_write_back_counts_against_both(host: Host) -> None:
    host.set(dirty=90, writeback=120)
    recorder = host.recorder()
    recorder.sample()
    (sample,) = recorder.timeline().samples
    assert sample.is_above_freerun
    assert sample.is_above_background


def test_the_ceiling_is_that_of_the_moment(host: Host) -> None:
    recorder = host.recorder()
    recorder.sample()
    host.now_ns += S
    host.set(dirty=60, thresholds=(20, 80))
    recorder.sample()
    crossing = recorder.timeline().crossing
    assert crossing is not None and crossing.thresholds.freerun_bytes == 50 * PAGE_BYTES


def test_rates_and_latencies_of_a_disk(host: Host) -> None:
    recorder = host.recorder(["sda"])
    steps = [(0, 500, 5, 100), (150, 500, 5, 100), (150, 1500, 7, 300), (0, 1700, 7, 300)]
    for dirty, written, writes, total_ns in steps:
        host.set(dirty)
        host.totals = (DeviceTotals(0, written, writes, total_ns),)
        recorder.sample()
        host.now_ns += 2 * S
    timeline = recorder.timeline()
    assert timeline.written_bytes(0) == 1200
    assert timeline.write_rate_bytes_per_s(0) == 1200 / 6
    assert timeline.background_write_rate_bytes_per_s(0) == 1200 / 4  # dirty from 2 to 6 s
    assert timeline.write_latency_mean_ns(0) == 100
    document: Any = timeline_document(timeline)
    (device,) = document["devices"]
    assert device["name"] == "sda"
    assert device["written_bytes"] == [0, 0, 1000, 1200]
    assert device["write_rate_bytes_per_s"] == [None, 0, 500, 100]
    assert device["write_latency_mean_ns"] == [None, None, 100, None]


def test_a_disk_that_never_wrote_in_the_background(host: Host) -> None:
    recorder = host.recorder(["sda"])
    host.totals = (DeviceTotals(),)
    recorder.sample()
    timeline = recorder.timeline()
    assert timeline.background_write_rate_bytes_per_s(0) is None
    assert timeline.write_rate_bytes_per_s(0) is None
    assert timeline.write_latency_mean_ns(0) is None


def test_pressure_is_a_share_of_the_time(host: Host) -> None:
    recorder = host.recorder()
    host.set(io_us=(1_000_000, 500_000))
    recorder.sample()
    host.now_ns += 4 * S
    host.set(io_us=(4_000_000, 1_500_000))
    recorder.sample()
    timeline = recorder.timeline()
    assert (timeline.io_some_share, timeline.io_full_share) == (0.75, 0.25)


def test_a_kernel_without_pressure_figures(host: Host) -> None:
    (host.proc / "pressure/io").unlink()
    recorder = host.recorder()
    recorder.sample()
    host.now_ns += S
    recorder.sample()
    timeline = recorder.timeline()
    assert timeline.first.io_some_ns is None
    assert timeline.io_some_share is None
    assert read_pressure(host.proc / "pressure") == (None, None)  # cannot be read at all


def test_memory_is_bounded_and_nothing_that_counts_is_dropped(host: Host) -> None:
    recorder = host.recorder(max_samples=10)
    interval_ns = recorder.beat.interval_ns
    for second in range(1000):
        host.set(dirty=250 if second == 331 else 5)
        recorder.sample()
        assert len(recorder.timeline().samples) <= 10
        host.now_ns += S
    timeline = recorder.timeline()
    assert (timeline.first.time_ns, timeline.last.time_ns) == (0, 999 * S)
    assert timeline.peak.time_ns == 331 * S
    assert timeline.crossing is timeline.peak
    assert recorder.beat.interval_ns > interval_ns
    assert recorder.beat.interval_ns % interval_ns == 0


def test_the_document_is_columns_of_one_length(host: Host) -> None:
    document = timeline_document(host.record(0, 250, 0))
    columns = {name: each for name, each in document.items() if isinstance(each, list)}
    del columns["devices"], columns["ebs_volumes"]
    assert {len(column) for column in columns.values()} == {3}
    assert document["freerun_crossed"] == {"time_ns": S, "freerun_bytes": 200 * PAGE_BYTES}
    assert columns["dirty_bytes"] == [0, 250 * PAGE_BYTES, 0]
    assert columns["background_threshold_bytes"] == [100 * PAGE_BYTES] * 3
    json.dumps(document)


def test_it_samples_while_the_context_lasts(host: Host) -> None:
    """The first and the last sample are the main thread's, whatever the other one does."""
    with host.recorder() as recorder:
        host.now_ns += 3 * S
        host.set(dirty=7)
    timeline = recorder.timeline()
    assert timeline.first.held_bytes == 0
    assert (timeline.duration_ns, timeline.last.dirty_bytes) == (3 * S, 7 * PAGE_BYTES)
