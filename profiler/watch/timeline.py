# SPDX-License-Identifier: Apache-2.0
"""The host's write-back during a run: dirty memory and its thresholds, disks, I/O pressure.

A sample reads `/proc/vmstat` (which makes the kernel compute its thresholds), `/proc/pressure/io`
and the disks' counters. Dirty pages and pages under write-back together count against the dirty
threshold; dirty pages alone start background write-back (mm/page-writeback.c, balance_dirty_pages
and wb_over_bg_thresh, Linux 6.18).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.bpf.probes.block import DeviceTotals
from profiler.watch.pressure import read_pressure
from profiler.watch.ticker import Beat, Ticker
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds

INTERVAL_NS = 50_000_000
MAX_SAMPLES = 12_000
_NS_PER_S = 10**9
_VMSTAT = ("nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold")
_VMSTAT_LINE = re.compile(rf"^({'|'.join(_VMSTAT)}) (\d+)$".encode(), re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """One sample, `time_ns` after the first one.

    `io_some_ns` and `io_full_ns` are the kernel's totals of the time in which some task, or all
    tasks, waited for I/O (Documentation/accounting/psi.rst); None if the kernel does not keep them.
    `devices` has the disks' totals, in the timeline's order. `stalled_ns` is how long threads in
    scope have slept in dirty throttling so far, summed over them; None if nothing counts it.
    """

    time_ns: int
    dirty_bytes: int
    writeback_bytes: int
    thresholds: Thresholds
    io_some_ns: int | None = None
    io_full_ns: int | None = None
    devices: tuple[DeviceTotals, ...] = ()
    stalled_ns: int | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes dirty and under write-back, which a kernel panic would lose."""
        return self.dirty_bytes + self.writeback_bytes

    @property
    def is_above_freerun(self) -> bool:
        """Whether the kernel may make writers wait."""
        return self.held_bytes > self.thresholds.freerun_bytes

    @property
    def is_above_background(self) -> bool:
        """Whether background write-back is running or not yet complete."""
        return self.held_bytes > self.thresholds.background_bytes


@dataclass(frozen=True)
class Timeline:
    """The samples of a run, at least one. `devices` are the disks' names.

    `peak` is the sample with the most held bytes, `crossing` the first above freerun or None; both
    are kept when samples are dropped.
    """

    samples: tuple[Sample, ...]
    peak: Sample
    crossing: Sample | None
    devices: tuple[str, ...] = ()

    @property
    def first(self) -> Sample:
        """The sample before the run."""
        return self.samples[0]

    @property
    def last(self) -> Sample:
        """The sample after the run."""
        return self.samples[-1]

    @property
    def duration_ns(self) -> int:
        """Time from the first sample to the last."""
        return self.last.time_ns - self.first.time_ns

    @property
    def peak_added_bytes(self) -> int:
        """Largest increase of dirty bytes and bytes under write-back since the beginning."""
        return self.peak.held_bytes - self.first.held_bytes

    @property
    def above_freerun_ns(self) -> int:
        """How long the kernel could make writers wait, to within one sampling interval."""
        return sum(_gap_ns(pair) for pair in self.pairs() if pair[0].is_above_freerun)

    @property
    def io_some_share(self) -> float | None:
        """Share of the time (0 to 1) in which some task waited for I/O; None if unknown."""
        return self._pressure_share(self.first.io_some_ns, self.last.io_some_ns)

    @property
    def io_full_share(self) -> float | None:
        """Share of the time (0 to 1) in which all tasks waited for I/O; None if unknown."""
        return self._pressure_share(self.first.io_full_ns, self.last.io_full_ns)

    def written_bytes(self, device: int) -> int:
        """Return what the disk of this index wrote, whichever process dirtied it."""
        return self.last.devices[device].written_bytes - self.first.devices[device].written_bytes

    def write_rate_bytes_per_s(self, device: int) -> float | None:
        """Return the disk's mean write rate over the run; None for a run without duration."""
        return rate_bytes_per_s([(self.first, self.last)], device)

    def background_write_rate_bytes_per_s(self, device: int) -> float | None:
        """Return its mean rate during background write-back; None if there was none."""
        pairs = [pair for pair in self.pairs() if pair[0].is_above_background]
        return rate_bytes_per_s(pairs, device)

    def write_latency_mean_ns(self, device: int) -> float | None:
        """Return the mean latency of the disk's write requests; None if none was timed."""
        return latency_mean_ns((self.first, self.last), device)

    def pairs(self) -> Iterator[tuple[Sample, Sample]]:
        """Yield each sample with the next one."""
        return zip(self.samples, self.samples[1:])

    def _pressure_share(self, before_ns: int | None, after_ns: int | None) -> float | None:
        if before_ns is None or after_ns is None or not self.duration_ns:
            return None
        return (after_ns - before_ns) / self.duration_ns


class TimelineRecorder:
    """Takes samples; above `max_samples` it drops every second one and doubles the interval.

    As a context manager it samples on entry, on exit and between them in its own thread. To share a
    thread, pass `beat` to a `Ticker` and call `sample` before and after. `read_devices` reads the
    totals of the disks named in `devices`. Raises OSError if /proc has no vmstat.
    """

    def __init__(
        self,
        devices: Sequence[str] = (),
        read_devices: Callable[[], tuple[DeviceTotals, ...]] = tuple,
        read_stalled_ns: Callable[[], int] | None = None,
        *,
        interval_ns: int = INTERVAL_NS,
        max_samples: int = MAX_SAMPLES,
        proc: Path = Path("/proc"),
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.beat = Beat(interval_ns, self.sample)
        self._devices = tuple(devices)
        self._read_devices = read_devices
        self._read_stalled_ns = read_stalled_ns
        self._max_samples = max_samples
        self._vmstat, self._pressure = proc / "vmstat", proc / "pressure/io"
        self._clock_ns = clock_ns
        self._start_ns: int | None = None
        self._samples: list[Sample] = []
        self._crossing: Sample | None = None

    def __enter__(self) -> TimelineRecorder:
        self.sample()
        self._ticker = Ticker([self.beat])
        self._ticker.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ticker.__exit__()
        self.sample()

    def sample(self) -> None:
        """Take a sample; not safe for several threads at a time."""
        sample = self._read()
        if not self._samples:
            self._peak = sample
        if sample.held_bytes > self._peak.held_bytes:
            self._peak = sample
        if self._crossing is None and sample.is_above_freerun:
            self._crossing = sample
        self._samples.append(sample)
        if len(self._samples) > self._max_samples:
            del self._samples[1:-1:2]
            self.beat.interval_ns *= 2

    def timeline(self) -> Timeline:
        """Return what was recorded so far; there must be a sample."""
        return Timeline(tuple(self._samples), self._peak, self._crossing, self._devices)

    def _read(self) -> Sample:
        now_ns = self._clock_ns()
        if self._start_ns is None:
            self._start_ns = now_ns
        dirty, writeback, threshold, background = read_vmstat(self._vmstat)
        some_ns, full_ns = read_pressure(self._pressure)
        return Sample(
            time_ns=now_ns - self._start_ns,
            dirty_bytes=dirty,
            writeback_bytes=writeback,
            thresholds=Thresholds(background, threshold),
            io_some_ns=some_ns,
            io_full_ns=full_ns,
            devices=self._read_devices(),
            stalled_ns=self._read_stalled_ns() if self._read_stalled_ns else None,
        )


def read_vmstat(path: Path) -> tuple[int, ...]:
    """Return bytes dirty, under write-back, and of the dirty and the background threshold."""
    pages = dict(_VMSTAT_LINE.findall(path.read_bytes()))
    return tuple(int(pages[name.encode()]) * PAGE_BYTES for name in _VMSTAT)


def _gap_ns(pair: tuple[Sample, Sample]) -> int:
    return pair[1].time_ns - pair[0].time_ns


def rate_bytes_per_s(pairs: Sequence[tuple[Sample, Sample]], device: int) -> float | None:
    """Return a disk's mean write rate over pairs of samples; None if they cover no time."""
    time_ns = sum(map(_gap_ns, pairs))
    if not time_ns:
        return None
    written = (b.devices[device].written_bytes - a.devices[device].written_bytes for a, b in pairs)
    return sum(written) * _NS_PER_S / time_ns


def latency_mean_ns(pair: tuple[Sample, Sample], device: int) -> float | None:
    """Return the mean latency of a disk's write requests in a pair; None if none was timed."""
    before, after = (sample.devices[device] for sample in pair)
    writes = after.timed_writes - before.timed_writes
    total_ns = after.write_latency_total_ns - before.write_latency_total_ns
    return total_ns / writes if writes > 0 else None
