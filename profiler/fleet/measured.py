# SPDX-License-Identifier: Apache-2.0
"""The record of one pull on this host, from its measurement and what the host counted meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timezone

from contracts.shared.errors import WritewiseError
from contracts.shared.installation import own_version
from contracts.stats import NonzeroBuckets, bucket_index, nonzero_buckets
from profiler.fleet.class_here import class_here
from profiler.fleet.node_id import node_id
from profiler.fleet.node_state import counts_now, rollout_here, start_text, verify_here
from profiler.fleet.record import FleetRecord, PullCounts, PullRates
from profiler.pull.measured import PullMeasurement
from profiler.watch.causes import split
from profiler.watch.trace import trace_of
from sysctl.evidence.circumstances import Circumstances
from sysctl.evidence.prediction import fit_pull
from sysctl.evidence.results import Observation
from sysctl.host.system import System

_NS_PER_S = 10**9


@dataclass
class PullRecorder:
    """Makes the record of a pull that begins now."""

    circumstances: Circumstances
    system: System = field(default_factory=System)

    def __post_init__(self) -> None:
        """Note the time and the host's counters."""
        self._start = datetime.now(timezone.utc)
        self._began_s = time.monotonic()
        self._before = counts_now(self.system)

    def record(self, measured: PullMeasurement | None) -> FleetRecord:
        """Return the record; None is a pull that ended with an error. Raises WritewiseError."""
        increase = counts_now(self.system).since(self._before)
        shared = self.circumstances.node_class
        present = rollout_here()
        why = measured.why if measured else None
        timeline = why.timeline if why else None
        return FleetRecord(
            writewise=own_version(),
            node=node_id(self.system),
            start=start_text(self._start),
            seconds=round(time.monotonic() - self._began_s, 3),
            node_class=class_here(shared, self.system),
            settings=shared.present,
            pulls=_counts(measured),
            histograms=_histograms(measured),
            stalls={part.cause: part.time_ns for part in split(why.calls)} if why else {},
            writer_ns=_writer_ns(measured),
            peak_at_risk_bytes=max(0, timeline.peak_added_bytes) if timeline else None,
            oom_kills=increase.oom_kills,
            memory_psi_full_us=increase.memory_psi_full_us,
            verify=verify_here(self.system, present),
            rollout=present.arm if present else None,
            rates=rates_of(measured, self.circumstances) if measured else None,
        )


def _counts(measured: PullMeasurement | None) -> PullCounts:
    if measured is None or measured.failures:
        return PullCounts(count=1, failed=1)
    durable_s = measured.durable_s or measured.return_s
    return PullCounts(
        count=1,
        bytes=measured.result.bytes,
        return_ns=_ns(measured.return_s),
        durable_ns=_ns(durable_s),
    )


def _histograms(measured: PullMeasurement | None) -> dict[str, NonzeroBuckets]:
    if measured is None:
        return {}
    found: dict[str, NonzeroBuckets] = {}
    if measured.why is not None:
        found["write_latency_ns"] = nonzero_buckets(measured.why.calls.buckets)
    if not measured.failures:
        found["return_time_ns"] = ((bucket_index(_ns(measured.return_s)), 1),)
        if measured.durable_s is not None:
            found["durable_time_ns"] = ((bucket_index(_ns(measured.durable_s)), 1),)
    return found


def _writer_ns(measured: PullMeasurement | None) -> int:
    threads = measured.writing_threads if measured else None
    return _ns(measured.return_s) * threads if measured and threads else 0


def _ns(seconds: float) -> int:
    return round(seconds * _NS_PER_S)


def rates_of(measured: PullMeasurement, circumstances: Circumstances) -> PullRates | None:
    """Return what the model needs; None if the pull does not show it."""
    timeline = measured.why.timeline if measured.why else None
    if timeline is None or measured.failures or not measured.result.bytes:
        return None
    run = Observation(
        return_s=measured.return_s,
        durable_s=measured.durable_s,
        stall_share=measured.stalled_share,
        peak_dirty_bytes=max(0, timeline.peak_added_bytes),
        thresholds=timeline.first.thresholds,
        limit_bytes=timeline.first.thresholds.dirty_bytes,
        bytes=measured.result.bytes,
        objects=measured.result.objects,
        dirtyable_bytes=circumstances.node.dirtyable_bytes,
        trace=trace_of(timeline, set(timeline.devices)),
    )
    try:
        model = fit_pull(run, circumstances.node_class.present)
    except WritewiseError:  # such as a pull that is too short
        return None
    return PullRates(
        burst_bytes=model.burst_bytes,
        dirtyable_bytes=model.dirtyable_bytes,
        source_bytes_per_s=model.source_bytes_per_s,
        device_bytes_per_s=model.device_bytes_per_s,
        seen_bytes=model.seen_bytes,
    )
