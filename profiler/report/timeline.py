# SPDX-License-Identifier: Apache-2.0
"""The timeline as a document for JSON."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.report.over_limit import course_document
from profiler.watch.timeline import Sample, Timeline, latency_mean_ns, rate_bytes_per_s
from profiler.watch.volumes import VolumeUse


def timeline_document(timeline: Timeline, volumes: Sequence[VolumeUse] = ()) -> dict[str, object]:
    """Return the timeline as plain data: the run's figures, then a column for each sample figure.

    A disk's rates and latencies cover the time since the sample before; they are None for the first
    sample and if nothing was written. EBS volumes have times of their own, because they are read at
    most once a second. `Timeline` and `Sample` describe the rest.
    """
    samples = timeline.samples
    return {
        "duration_ns": timeline.duration_ns,
        "peak_bytes": timeline.peak.held_bytes,
        "peak_time_ns": timeline.peak.time_ns,
        "freerun_crossed": _crossing_document(timeline.crossing),
        "above_freerun_ns": timeline.above_freerun_ns,
        "io_some_share": timeline.io_some_share,
        "io_full_share": timeline.io_full_share,
        "time_ns": [sample.time_ns for sample in samples],
        "dirty_bytes": [sample.dirty_bytes for sample in samples],
        "writeback_bytes": [sample.writeback_bytes for sample in samples],
        "background_threshold_bytes": [s.thresholds.background_bytes for s in samples],
        "dirty_threshold_bytes": [sample.thresholds.dirty_bytes for sample in samples],
        "freerun_bytes": [sample.thresholds.freerun_bytes for sample in samples],
        "io_some_ns": [sample.io_some_ns for sample in samples],
        "io_full_ns": [sample.io_full_ns for sample in samples],
        "stalled_ns": [sample.stalled_ns for sample in samples],
        "devices": [_device_document(timeline, at) for at in range(len(timeline.devices))],
        "ebs_volumes": course_document(volumes),
    }


def _crossing_document(crossing: Sample | None) -> dict[str, int] | None:
    if crossing is None:
        return None
    return {"time_ns": crossing.time_ns, "freerun_bytes": crossing.thresholds.freerun_bytes}


def _device_document(timeline: Timeline, device: int) -> dict[str, object]:
    samples = timeline.samples
    before_bytes = timeline.first.devices[device].written_bytes
    pairs = list(timeline.pairs())
    return {
        "name": timeline.devices[device],
        "write_rate_mean_bytes_per_s": timeline.write_rate_bytes_per_s(device),
        "background_write_rate_mean_bytes_per_s": timeline.background_write_rate_bytes_per_s(
            device
        ),
        "write_request_latency_mean_ns": timeline.write_latency_mean_ns(device),
        "written_bytes": [s.devices[device].written_bytes - before_bytes for s in samples],
        "write_rate_bytes_per_s": [None, *(rate_bytes_per_s([pair], device) for pair in pairs)],
        "write_latency_mean_ns": [None, *(latency_mean_ns(pair, device) for pair in pairs)],
    }
