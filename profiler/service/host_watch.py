# SPDX-License-Identifier: Apache-2.0
"""What `writewise watch` measures, as values of its metrics. One thread uses it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from contracts.fields import size_range_text
from contracts.model import CallType, Slot
from contracts.shared.text import printable
from contracts.stats import CallStats
from profiler.bpf.disks import BlockDevice
from profiler.bpf.probes.block import DeviceStats
from profiler.bpf.stall_session import StallSession
from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import CAUSES, LIMITS, Latencies, MetricValue, latencies
from profiler.service.calls_level import CallsLevel
from profiler.service.day_tally import LONGEST_GAP_NS, StallSample
from profiler.service.ebs_pages import EbsPages
from profiler.watch.causes import split
from profiler.watch.timeline import read_vmstat
from sysctl.host.governor_state import GovernorState, read_governor_state
from sysctl.knobs.writeback import Thresholds

_NS_PER_S = 10**9


class HostWatch:
    """Reads all sources of a running watch.

    `sample` is to be called every second: the time above freerun is that of its samples. `problems`
    are sentences on what fails at present. `versions` are those of Writewise and BCC.
    """

    def __init__(
        self,
        stalls: StallSession,
        disks: Sequence[BlockDevice],
        ebs: EbsPages,
        calls: CallsLevel,
        versions: tuple[str, str],
        *,
        vmstat: Path = Path("/proc/vmstat"),
        read_governor: Callable[[], GovernorState | None] = read_governor_state,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.calls = calls
        self._stalls, self._disks, self._ebs = stalls, tuple(disks), ebs
        self._versions, self._vmstat, self._clock_ns = versions, vmstat, clock_ns
        self._above_freerun_ns = 0
        self._last: StallSample | None = None
        self._read_governor = read_governor
        self._call_times: dict[tuple[str, ...], MetricValue] = {}
        #: Why calls cannot be counted at present, in a sentence.
        self.failure: str | None = None

    def sample(self) -> StallSample:
        """Take a sample, and return it."""
        now_ns, before = self._clock_ns(), self._last
        dirty, writeback, thresholds = self._memory()
        if before is not None and before.is_above_freerun:
            self._above_freerun_ns += min(now_ns - before.at_ns, LONGEST_GAP_NS)
        self._last = StallSample(now_ns, dirty + writeback, thresholds, self._stalls.throttled())
        return self._last

    def _memory(self) -> tuple[int, int, Thresholds]:
        """Return the bytes that are dirty and under write-back, and the thresholds."""
        dirty, writeback, threshold, background = read_vmstat(self._vmstat)
        return dirty, writeback, Thresholds(background, threshold)

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences on what cannot be measured at present."""
        return (*([self.failure] if self.failure else []), *self._ebs.problems.values())

    def values(self) -> list[MetricValue]:
        """Return all values now."""
        calls, lost = self.calls.read()
        lost["probe_runs_missed"] += self._stalls.runs_missed()
        of_disks = list(self._of_disks())  # reads the EBS volumes, which may fail
        of_calls = [*self._of_calls(calls), *self._of_rules()]
        governor = self._read_governor()
        return [*self._of_the_host(lost), *of_disks, *of_calls, *of_governor(governor)]

    def _of_the_host(self, lost: Mapping[str, int]) -> Iterator[MetricValue]:
        throttled = self._stalls.throttled()
        dirty, writeback, at = self._memory()
        thresholds = (at.background_bytes, at.freerun_bytes, at.dirty_bytes)
        yield MetricValue(metrics.BUILD, 1, self._versions)
        yield MetricValue(metrics.UP, not self.problems)
        yield MetricValue(metrics.THROTTLE_SECONDS, throttled.planned_ns / _NS_PER_S)
        yield MetricValue(metrics.THROTTLE_PAUSES, throttled.pauses)
        yield MetricValue(metrics.ABOVE_FREERUN, self._above_freerun_ns / _NS_PER_S)
        for state, size in zip(metrics.STATES, (dirty, writeback)):
            yield MetricValue(metrics.DIRTY_MEMORY, size, (state,))
        for name, size in zip(metrics.THRESHOLDS, thresholds):
            yield MetricValue(metrics.DIRTY_THRESHOLD, size, (name,))
        yield MetricValue(metrics.CALL_PROBES, self.calls.is_attached)
        yield MetricValue(metrics.TIMEFRAMES, self.calls.frames)
        for reason in metrics.REASONS:
            yield MetricValue(metrics.LOST_EVENTS, lost.get(reason, 0), (reason,))

    def _of_disks(self) -> Iterator[MetricValue]:
        for disk, stats in zip(self._disks, self._stalls.disks()):
            yield from of_disk(disk.name, stats)
        for volume in self._ebs.totals():
            for limit, exceeded_s in zip(LIMITS, volume.exceeded_s):
                yield MetricValue(metrics.EBS_EXCEEDED, exceeded_s, (volume.disk, limit))
            if volume.queue_length is not None:
                yield MetricValue(metrics.EBS_QUEUE, volume.queue_length, (volume.disk,))

    def _of_calls(self, calls: Mapping[Slot, CallStats]) -> Iterator[MetricValue]:
        for slot, stats in calls.items():
            for value in of_slot(slot, stats):
                yield self._not_less(value) if value.metric is metrics.CALL_TIME else value

    def _not_less(self, value: MetricValue) -> MetricValue:
        """Return the value, or the last one if that was more.

        While calls run, total and waits may differ by a call, so the rest of the two can shrink. A
        counter that shrinks would be taken for one that began again at 0.
        """
        last = self._call_times.get(value.labels, value)
        if isinstance(value.value, Latencies) or isinstance(last.value, Latencies):
            return value
        self._call_times[value.labels] = value if value.value >= last.value else last
        return self._call_times[value.labels]

    def _of_rules(self) -> Iterator[MetricValue]:
        for rule in self.calls.contract.rules:
            label = (printable(rule.label),)
            yield MetricValue(metrics.VIOLATED, self.calls.violated[rule.label], label)
            if rule.label in self.calls.ratios:
                yield MetricValue(metrics.THRESHOLD_RATIO, self.calls.ratios[rule.label], label)


def of_disk(name: str, stats: DeviceStats) -> Iterator[MetricValue]:
    """Yield the values of one disk."""
    writes = stats.writes
    yield MetricValue(metrics.DISK_WRITTEN, writes.bytes, (name,))
    yield MetricValue(
        metrics.DISK_WRITES, latencies(writes.buckets, writes.latency_total_ns), (name,)
    )


def of_slot(slot: Slot, stats: CallStats) -> Iterator[MetricValue]:
    """Yield the values of one slot; the path is as the contract has it."""
    call = "+".join(each.value for each in CallType if each in slot.call_types)
    labels = (call, printable(slot.path), size_range_text(slot.size_range))
    duration = latencies(stats.buckets, stats.latency_total_ns)
    yield MetricValue(metrics.CALL_DURATION, duration, labels)
    yield MetricValue(metrics.CALL_BYTES, stats.bytes, labels)
    yield MetricValue(metrics.CALL_FAILURES, stats.failed, labels)
    for part in split(stats):
        seconds = part.time_ns / _NS_PER_S
        yield MetricValue(metrics.CALL_TIME, seconds, (*labels, CAUSES[part.cause]))


def of_governor(state: GovernorState | None) -> Iterator[MetricValue]:
    """Yield the values of the last governor since the boot; none if there was none.

    They are of its process: a governor that starts again begins at 0.
    """
    if state is None:
        return
    is_running, sums = state.is_running(), state.sums
    yield MetricValue(metrics.GOVERN_RUNNING, is_running)
    yield MetricValue(metrics.GOVERN_RAISED, is_running and state.is_raised)
    yield MetricValue(metrics.GOVERN_BURSTS, sums.bursts)
    yield MetricValue(metrics.GOVERN_ARRIVED, sums.arrived_bytes)
    yield MetricValue(metrics.GOVERN_RAISED_TIME, sums.raised_s)
    yield MetricValue(metrics.GOVERN_SAVED, sums.saved_s)
