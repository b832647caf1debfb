"""The host's write-back while something runs: dirty memory against its thresholds, disks, pressure.

A sample is one reading of `/proc/vmstat` (which makes the kernel compute its thresholds anew), one
of `/proc/pressure/io` and one of the disks' counters. What is dirty or under write-back counts
against the thresholds together. To start writing back, dirty pages alone must pass the background
one; what is under write-back was handed over by it (mm/page-writeback.c, balance_dirty_pages and
wb_over_bg_thresh, as of Linux 6.18).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.bpf.probes.block import DeviceTotals
from profiler.watch.ticker import Beat, Ticker
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds

INTERVAL_NS = 50_000_000
MAX_SAMPLES = 12_000
_NS_PER_S = 10**9
_VMSTAT = ("nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold")
_VMSTAT_LINE = re.compile(rf"^({'|'.join(_VMSTAT)}) (\d+)$".encode(), re.MULTILINE)
_PRESSURE_LINE = re.compile(rb"^(some|full) .*total=(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """One moment, `time_ns` after the first one.

    `io_some_us` and `io_full_us` are the kernel's running totals of the time in which some task,
    or every task that wanted to run, waited for I/O (Documentation/accounting/psi.rst); None where
    the kernel keeps none. `devices` has the disks' running totals, in the timeline's order.
    """

    time_ns: int
    dirty_bytes: int
    writeback_bytes: int
    thresholds: Thresholds
    io_some_us: int | None = None
    io_full_us: int | None = None
    devices: tuple[DeviceTotals, ...] = ()

    @property
    def held_bytes(self) -> int:
        """Dirty and under write-back: what a kernel panic would lose."""
        return self.dirty_bytes + self.writeback_bytes

    @property
    def is_above_freerun(self) -> bool:
        """Whether writers may be made to wait."""
        return self.held_bytes > self.thresholds.freerun_bytes

    @property
    def is_above_background(self) -> bool:
        """Whether the kernel writes back in the background, or has still to finish doing so."""
        return self.held_bytes > self.thresholds.background_bytes


@dataclass(frozen=True)
class Timeline:
    """The samples of a run, at least one. `devices` are the disks' names.

    `peak` held most, `crossing` was the first above freerun (None: there was none); both are kept
    even where every second sample was dropped.
    """

    samples: tuple[Sample, ...]
    peak: Sample
    crossing: Sample | None
    devices: tuple[str, ...] = ()

    @property
    def first(self) -> Sample:
        """The sample from before the run."""
        return self.samples[0]

    @property
    def last(self) -> Sample:
        """The sample from after the run."""
        return self.samples[-1]

    @property
    def duration_ns(self) -> int:
        """From the first sample to the last."""
        return self.last.time_ns - self.first.time_ns

    @property
    def peak_added_bytes(self) -> int:
        """How much more was dirty or under write-back at most than at the beginning."""
        return self.peak.held_bytes - self.first.held_bytes

    @property
    def above_freerun_ns(self) -> int:
        """How long writers may have been made to wait, to about an interval between samples."""
        return sum(_gap_ns(pair) for pair in self.pairs() if pair[0].is_above_freerun)

    @property
    def io_some_share(self) -> float | None:
        """The share of the time in which some task waited for I/O, 0 to 1; None if not known."""
        return self._pressure_share(self.first.io_some_us, self.last.io_some_us)

    @property
    def io_full_share(self) -> float | None:
        """The same of the time in which no task could run for waiting for I/O."""
        return self._pressure_share(self.first.io_full_us, self.last.io_full_us)

    def written_bytes(self, device: int) -> int:
        """What the disk of that index wrote, whoever dirtied it."""
        return self.last.devices[device].written_bytes - self.first.devices[device].written_bytes

    def write_rate_bytes_per_s(self, device: int) -> float | None:
        """The disk's mean rate over the run; None when no time went by."""
        return rate_bytes_per_s([(self.first, self.last)], device)

    def background_write_rate_bytes_per_s(self, device: int) -> float | None:
        """Its mean rate while the kernel wrote back in the background; None if it never did."""
        pairs = [pair for pair in self.pairs() if pair[0].is_above_background]
        return rate_bytes_per_s(pairs, device)

    def write_latency_mean_ns(self, device: int) -> float | None:
        """The mean time of the disk's write requests; None when none was timed."""
        return latency_mean_ns((self.first, self.last), device)

    def pairs(self) -> Iterator[tuple[Sample, Sample]]:
        """Each sample with the one after it."""
        return zip(self.samples, self.samples[1:])

    def _pressure_share(self, before_us: int | None, after_us: int | None) -> float | None:
        if before_us is None or after_us is None or not self.duration_ns:
            return None
        return (after_us - before_us) * 1000 / self.duration_ns


class TimelineRecorder:
    """Takes samples, and keeps memory bounded: above `max_samples` every second one is dropped,
    and the interval doubles.

    As a context manager it samples on entry, in a thread of its own while the context lasts, and
    on exit. To share a thread, give `beat` to a `Ticker` instead and call `sample` before and
    after. `read_devices` reads the totals of the disks named in `devices`. Raises OSError where
    /proc has no vmstat.
    """

    def __init__(
        self,
        devices: Sequence[str] = (),
        read_devices: Callable[[], tuple[DeviceTotals, ...]] = tuple,
        *,
        interval_ns: int = INTERVAL_NS,
        max_samples: int = MAX_SAMPLES,
        proc: Path = Path("/proc"),
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.beat = Beat(interval_ns, self.sample)
        self._devices = tuple(devices)
        self._read_devices = read_devices
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
        """Take one now; never from two threads at a time."""
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
        """What was recorded so far, at least one sample."""
        return Timeline(tuple(self._samples), self._peak, self._crossing, self._devices)

    def _read(self) -> Sample:
        now_ns = self._clock_ns()
        if self._start_ns is None:
            self._start_ns = now_ns
        dirty, writeback, threshold, background = read_vmstat(self._vmstat)
        some_us, full_us = read_pressure(self._pressure)
        return Sample(
            time_ns=now_ns - self._start_ns,
            dirty_bytes=dirty,
            writeback_bytes=writeback,
            thresholds=Thresholds(background, threshold),
            io_some_us=some_us,
            io_full_us=full_us,
            devices=self._read_devices(),
        )


def read_vmstat(path: Path) -> tuple[int, ...]:
    """Dirty, under write-back, the dirty and the background threshold, in bytes."""
    pages = dict(_VMSTAT_LINE.findall(path.read_bytes()))
    return tuple(int(pages[name.encode()]) * PAGE_BYTES for name in _VMSTAT)


def read_pressure(path: Path) -> tuple[int | None, int | None]:
    """Totals of `some` and `full` in µs; None without CONFIG_PSI, or when it is switched off."""
    try:
        totals = dict(_PRESSURE_LINE.findall(path.read_bytes()))
    except OSError:  # there is no such file, or to read it is not supported (psi=0)
        return None, None
    some, full = (int(totals[kind]) if kind in totals else None for kind in (b"some", b"full"))
    return some, full


def _gap_ns(pair: tuple[Sample, Sample]) -> int:
    return pair[1].time_ns - pair[0].time_ns


def rate_bytes_per_s(pairs: Sequence[tuple[Sample, Sample]], device: int) -> float | None:
    """A disk's mean write rate over the times between pairs of samples; None for no time."""
    time_ns = sum(map(_gap_ns, pairs))
    if not time_ns:
        return None
    written = (b.devices[device].written_bytes - a.devices[device].written_bytes for a, b in pairs)
    return sum(written) * _NS_PER_S / time_ns


def latency_mean_ns(pair: tuple[Sample, Sample], device: int) -> float | None:
    """The mean time of a disk's write requests between two samples; None when none was timed."""
    before, after = (sample.devices[device] for sample in pair)
    writes = after.timed_writes - before.timed_writes
    total_ns = after.write_latency_total_ns - before.write_latency_total_ns
    return total_ns / writes if writes > 0 else None
