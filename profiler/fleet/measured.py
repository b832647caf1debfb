# SPDX-License-Identifier: Apache-2.0
"""The record of one pull on this host, from its measurement and what the host counted meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from contracts.shared.errors import WritewiseError
from contracts.shared.files import FileKind
from contracts.shared.installation import own_version
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
from sysctl.host.sysctls import read_sysctl, read_vmstat, whole_number
from sysctl.host.system import HostError, System
from sysctl.knobs.vm import BY_NAME
from sysctl.rollout.marker import MARKER

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
        now, shared = counts_now(self.system), self.circumstances.node_class
        present = rollout_here()
        why = measured.why if measured else None
        timeline = why.timeline if why else None
        return FleetRecord(
            writewise=own_version(),
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
            verify=verify_here(self.system, present),
            rollout=present.arm if present else None,
            rates=rates_of(measured, self.circumstances) if measured else None,
        )


@dataclass(frozen=True)
class RolloutHere:
    """The roll-out that this node takes part in, and the sysctls that its engine set."""

    arm: RolloutArm
    settings: Mapping[str, int]


def rollout_here() -> RolloutHere | None:
    """Return the roll-out that this node takes part in; None without one.

    The engine of the roll-out writes it. Raises WritewiseError for a file that others could have
    written, or an invalid one.
    """
    path = state_directory() / MARKER
    if not path.exists():
        return None
    try:
        data = json.loads(_ROLLOUT_FILE.read_text(str(path), trusted=True))
        arm = RolloutArm(str(data["id"]), int(data["stage"]), str(data["arm"]))
        settings = {_known(name): int(value) for name, value in data.get("settings", {}).items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise WritewiseError(f"{path} is not a valid roll-out", _ROLLOUT_FILE.hint) from None
    return RolloutHere(arm, settings)


def _known(name: str) -> str:
    """Return the name of a sysctl that Writewise knows. Raises LookupError."""
    return BY_NAME[name].name


def verify_here(system: System, rollout: RolloutHere | None) -> str | None:
    """Return whether what the roll-out or `apply` set is in force; None if nothing was, or unknown.

    Raises HostError.
    """
    if rollout and rollout.settings:
        are_set = [read_sysctl(system, name) == at for name, at in rollout.settings.items()]
        return IN_FORCE if all(are_set) else CHANGED if any(are_set) else NOT_APPLIED
    history = read_history(system)
    if history.problem:
        return None
    if not history.changes:
        return NOT_APPLIED if rollout and rollout.arm.arm == TREATED else None
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
