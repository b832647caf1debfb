"""What goes on around a session's calls: write-back and the disks; and so why writes were slow."""

from __future__ import annotations

from profiler.bpf.probes.block import DeviceStats
from profiler.bpf.session import ProfileSession, ProfileSnapshot
from profiler.watch.causes import WhyInputs
from profiler.watch.ticker import Beat, Ticker
from profiler.watch.timeline import TimelineRecorder
from profiler.watch.write_calls import widest_writes


class Watch:
    """Watches a session for as long as the context lasts, in a thread of its own.

    To share a thread, run `beat` in a ticker between `begin` and `end` instead.
    """

    def __init__(self, session: ProfileSession) -> None:
        self._contract = session.contract
        self._devices = session.devices
        self._sees_uring = session.sees_uring
        self._counters = session.device_counters()
        read_devices = self._counters.totals if self._counters else tuple
        self._recorder = TimelineRecorder([each.name for each in self._devices], read_devices)
        self._before: tuple[DeviceStats, ...] = ()
        self._after: tuple[DeviceStats, ...] = ()

    def __enter__(self) -> Watch:
        self.begin()
        self._ticker = Ticker([self.beat])
        self._ticker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ticker.__exit__()
        self.end()

    @property
    def beat(self) -> Beat:
        """Takes a sample of the timeline."""
        return self._recorder.beat

    def begin(self) -> None:
        """Take the first sample."""
        self._before = self._counters.stats() if self._counters else ()
        self._recorder.sample()

    def end(self) -> None:
        """Take the last sample; no beat runs any more."""
        self._recorder.sample()
        self._after = self._counters.stats() if self._counters else ()

    def inputs(self, snapshot: ProfileSnapshot) -> WhyInputs:
        """All that an explanation of the snapshot's writes needs; to be called after the end."""
        pairs = zip(self._contract.rules, snapshot.stats)
        of_slot = {rule.slot: stats for rule, stats in pairs if rule.slot}
        writes = widest_writes(of_slot)
        differences = (after.since(before) for before, after in zip(self._before, self._after))
        return WhyInputs(
            calls=writes.stats,
            call_types=writes.call_types,
            elapsed_ns=snapshot.elapsed_ns,
            stall=snapshot.stall,
            writers=snapshot.writers,
            sees_uring=self._sees_uring,
            timeline=self._recorder.timeline(),
            devices=tuple(zip(self._devices, differences)),
        )
