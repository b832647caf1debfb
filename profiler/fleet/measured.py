# SPDX-License-Identifier: Apache-2.0
"""The record of one pull on this host, from its measurement and what the host counted meanwhile."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from contracts.shared.errors import WritewiseError
from contracts.shared.files import FileKind
from contracts.stats import NonzeroBuckets, bucket_index, nonzero_buckets
from profiler.fleet.class_here import class_here
from profiler.fleet.node_id import node_id
from profiler.fleet.record import (
    CHANGED,
    IN_FORCE,
    NOT_APPLIED,
    TREATED,
    FleetRecord,
    PullCounts,
    PullRates,
    RolloutArm,
)
from profiler.pull.measured import PullMeasurement
from profiler.watch.causes import split
from profiler.watch.pressure import read_pressure
from profiler.watch.trace import trace_of
from sysctl.apply.compliance import check_compliance, wanted_by_applied
from sysctl.apply.history import read_history
from sysctl.evidence.circumstances import Circumstances
from sysctl.evidence.prediction import fit_pull
from sysctl.evidence.results import Observation
from sysctl.host.host import state_directory
from sysctl.host.sysctls import read_vmstat, whole_number
from sysctl.host.system import HostError, System

ROLLOUT_NAME = "rollout.json"
_ROLLOUT_FILE = FileKind("roll-out", 4096, "the roll-out's engine writes it")
_NS_PER_S, _NS_PER_US = 10**9, 1000


@dataclass(frozen=True)
class HostCounts:
    """What the host has counted since it booted; None if it does not count it."""

    oom_kills: int | None
    memory_psi_full_us: int | None


def counts_now(system: System) -> HostCounts:
    """Return the host's counters."""
    try:
        oom_kills = whole_number(read_vmstat(system)["oom_kill"], "oom_kill of /proc/vmstat")
    except (HostError, KeyError):
        oom_kills = None
    _, full_ns = read_pressure(Path(system.path("/proc/pressure/memory")))
    return HostCounts(oom_kills, None if full_ns is None else full_ns // _NS_PER_US)


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
        from importlib.metadata import version

        now, shared = counts_now(self.system), self.circumstances.node_class
        rollout = rollout_here()
        why = measured.why if measured else None
        timeline = why.timeline if why else None
        return FleetRecord(
            writewise=version("writewise"),
            node=node_id(self.system),
            start=self._start.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            seconds=round(time.monotonic() - self._began_s, 3),
            node_class=class_here(shared, self.system),
            settings=shared.present,
            pulls=_counts(measured),
            histograms=_histograms(measured),
            stalls={part.cause: part.time_ns for part in split(why.calls)} if why else {},
            writer_ns=_writer_ns(measured),
            peak_at_risk_bytes=max(0, timeline.peak_added_bytes) if timeline else None,
            oom_kills=_increase(self._before.oom_kills, now.oom_kills),
            memory_psi_full_us=_increase(self._before.memory_psi_full_us, now.memory_psi_full_us),
            verify=verify_here(self.system, rollout),
            rollout=rollout,
            rates=rates_of(measured, self.circumstances) if measured else None,
        )


def rollout_here() -> RolloutArm | None:
    """Return the roll-out that this node takes part in; None without one.

    The engine of the roll-out writes it. Raises WritewiseError for a file that others could have
    written, or an invalid one.
    """
    path = state_directory() / ROLLOUT_NAME
    if not path.exists():
        return None
    try:
        data = json.loads(_ROLLOUT_FILE.read_text(str(path), trusted=True))
        return RolloutArm(str(data["id"]), int(data["stage"]), str(data["arm"]))
    except (ValueError, LookupError, TypeError):
        raise WritewiseError(f"{path} is not a valid roll-out", _ROLLOUT_FILE.hint) from None


def verify_here(system: System, rollout: RolloutArm | None) -> str | None:
    """Return whether what `apply` applied is in force; None if nothing should be, or unknown."""
    history = read_history(system)
    if history.problem:
        return None
    if not history.changes:
        return NOT_APPLIED if rollout and rollout.arm == TREATED else None
    checks = check_compliance(system, wanted_by_applied(system, history.changes), history.changes)
    return IN_FORCE if all(check.is_compliant for check in checks) else CHANGED


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


def _increase(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(0, now - before)


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
