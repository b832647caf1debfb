# SPDX-License-Identifier: Apache-2.0
"""Observes write-back, the disks and EBS limits during a session, to explain slow writes."""

from __future__ import annotations

from collections.abc import Iterator

from profiler.bpf.probes.block import DeviceStats
from profiler.bpf.probes.waits import StalledWriter
from profiler.bpf.session import ProfileSession, ProfileSnapshot
from profiler.watch.causes import WhyInputs
from profiler.watch.ticker import Beat, Ticker
from profiler.watch.timeline import TimelineRecorder
from profiler.watch.volumes import VolumeRecorder
from profiler.watch.write_calls import fsyncs_of, widest_writes


class Watch:
    """Watches a session within the block, in its own thread.

    To share a thread, run `beats` in a ticker between `begin` and `end` instead. `volumes` records
    the EBS volumes among the disks.
    """

    def __init__(self, session: ProfileSession, volumes: VolumeRecorder | None = None) -> None:
        self._volumes = volumes or VolumeRecorder()
        self._contract = session.contract
        self._devices = session.devices
        self._sees_uring = session.sees_uring
        self._counters = session.device_counters()
        read_devices = self._counters.totals if self._counters else tuple
        self._recorder = TimelineRecorder(
            [each.name for each in self._devices], read_devices, session.stalled_ns
        )
        self._before: tuple[DeviceStats, ...] = ()
        self._after: tuple[DeviceStats, ...] = ()
        self._read_stalled = session.stalled_writers
        self._stalled_before: dict[tuple[str, str], int] = {}
        self._stalled: tuple[StalledWriter, ...] = ()

    def __enter__(self) -> Watch:
        self.begin()
        self._ticker = Ticker(self.beats)
        self._ticker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ticker.__exit__()
        self.end()

    @property
    def beats(self) -> tuple[Beat, ...]:
        """The beats that sample the timeline and the volumes."""
        return (self._recorder.beat, *self._volumes.beats)

    def begin(self) -> None:
        """Take the first sample."""
        self._before = self._counters.stats() if self._counters else ()
        self._stalled_before = self._read_stalled()
        self._volumes.begin()
        self._recorder.sample()

    def end(self) -> None:
        """Take the last sample, after the last beat."""
        self._recorder.sample()
        self._volumes.end()
        self._after = self._counters.stats() if self._counters else ()
        self._stalled = tuple(self._stalled_since())

    def _stalled_since(self) -> Iterator[StalledWriter]:
        for (command, device), planned_ns in self._read_stalled().items():
            before_ns = self._stalled_before.get((command, device), 0)
            if planned_ns > before_ns:
                yield StalledWriter(command, device, planned_ns - before_ns)

    def inputs(self, snapshot: ProfileSnapshot) -> WhyInputs:
        """Return the data that explains the snapshot's writes; call it after `end`."""
        pairs = zip(self._contract.rules, snapshot.stats)
        of_slot = {rule.slot: stats for rule, stats in pairs if rule.slot}
        writes = widest_writes(of_slot)
        differences = (after.since(before) for before, after in zip(self._before, self._after))
        return WhyInputs(
            calls=writes.stats,
            fsyncs=fsyncs_of(of_slot),
            stalled=self._stalled,
            call_types=writes.call_types,
            elapsed_ns=snapshot.elapsed_ns,
            stall=snapshot.stall,
            writers=snapshot.writers,
            sees_uring=self._sees_uring,
            timeline=self._recorder.timeline(),
            devices=tuple(zip(self._devices, differences)),
            volumes=self._volumes.uses(),
        )
