# SPDX-License-Identifier: Apache-2.0
"""How long EBS volumes, and the instance, were over their limits while something ran.

The volumes' own counters are read before and after it, and in between at most once a second. A
reading that fails ends the readings of that volume for this run, and nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.bpf.disks import devices_of
from profiler.ec2 import log_page
from profiler.ec2.log_page import LogPage, LogPageError, since
from profiler.ec2.node import AttachedVolume, ebs_volumes
from profiler.watch.ticker import Beat
from sysctl.evidence.over_limit import OverLimit

#: More frequent requests are queued with other commands of the controller (AWS, "Amazon EBS
#: detailed performance statistics").
INTERVAL_NS = 10**9
#: The share of the thread's time that readings may take, for a controller that answers slowly.
_SHARE = 0.05
_MOST_READINGS = 4000
#: From this share of an interval over a limit, its rate is what the limit lets through.
_AT_LIMIT_SHARE = 0.5
_US_PER_S, _NS_PER_S, _NS_PER_US = 10**6, 10**9, 1000

#: Opens a disk by its name. Raises OSError or LogPageError.
Open = Callable[[str], int]
#: Returns the page of an open disk. Raises OSError or LogPageError.
Read = Callable[[int], bytes]


@dataclass(frozen=True)
class Reading:
    """What a volume had counted `time_ns` after the first reading, since that reading."""

    time_ns: int
    counted: LogPage


@dataclass(frozen=True)
class VolumeUse:
    """The readings of a volume during a run; `problem` is why they ended early or never began."""

    volume: AttachedVolume
    readings: tuple[Reading, ...]
    problem: str | None = None

    @property
    def over_limit(self) -> OverLimit | None:
        """The time over each limit; None if it is unknown."""
        if self.problem or len(self.readings) < 2 or not self.readings[-1].time_ns:
            return None
        last = self.readings[-1]
        observed_s = last.time_ns / _NS_PER_S
        volume_iops, volume_throughput, instance_iops, instance_throughput = (
            time_us / _US_PER_S for time_us in last.counted.exceeded_us
        )
        at_limit_s, rate, ops = _at_limit(self.readings)
        return OverLimit(
            observed_s=observed_s,
            volume_iops_s=volume_iops,
            volume_throughput_s=volume_throughput,
            instance_iops_s=instance_iops,
            instance_throughput_s=instance_throughput,
            at_limit_s=at_limit_s,
            at_limit_rate_bytes_per_s=rate,
            at_limit_ops_per_s=ops,
            rate_bytes_per_s=last.counted.bytes / observed_s,
        )


def _at_limit(readings: Sequence[Reading]) -> tuple[float, float | None, float | None]:
    """Return the time at a limit (s), and the bytes and operations a second in it."""
    pairs = [pair for pair in _intervals(readings) if _is_at_limit(*pair)]
    time_s = sum(after.time_ns - before.time_ns for before, after in pairs) / _NS_PER_S
    if not time_s:
        return 0.0, None, None
    passed = sum(after.counted.bytes - before.counted.bytes for before, after in pairs)
    ops = sum(after.counted.ops - before.counted.ops for before, after in pairs)
    return time_s, passed / time_s, ops / time_s


def _intervals(readings: Sequence[Reading]) -> Iterator[tuple[Reading, Reading]]:
    """Yield the intervals between readings; the last one is part of the one before if it is short.

    The volume's counters advance in steps, of which a short interval can have one or none.
    """
    kept = list(readings)
    if len(kept) > 2 and kept[-1].time_ns - kept[-2].time_ns < INTERVAL_NS / 2:
        del kept[-2]
    return zip(kept, kept[1:])


def _is_at_limit(before: Reading, after: Reading) -> bool:
    times_us = zip(before.counted.exceeded_us, after.counted.exceeded_us)
    longest_ns = max(later - earlier for earlier, later in times_us) * _NS_PER_US
    return longest_ns >= _AT_LIMIT_SHARE * (after.time_ns - before.time_ns)


class EbsVolumes:
    """The EBS volumes among some disks, open while the context lasts.

    Other disks are neither opened nor sent a command. A volume that cannot be opened is kept with
    its reason.
    """

    def __init__(
        self,
        disks: Iterable[str] = (),
        sysfs: Path = Path("/sys"),
        open_disk: Open = log_page.open_disk,
        read: Read = log_page.read_page,
    ) -> None:
        names = {disk for disk in disks if log_page.has_log_page(disk, sysfs)}
        found = ebs_volumes(sysfs) if names else ()
        self.volumes = tuple(volume for volume in found if volume.disk in names)
        self._open, self._read = open_disk, read
        self._descriptors: dict[str, int] = {}
        self._problems: dict[str, str] = {}

    @classmethod
    def below(cls, path: Path) -> EbsVolumes:
        """Return the volumes of the file systems at and below a path."""
        return cls(disk.name for disk in devices_of((str(path),)))

    def __enter__(self) -> EbsVolumes:
        for volume in self.volumes:
            try:
                self._descriptors[volume.disk] = self._open(volume.disk)
            except (OSError, LogPageError) as error:
                self._problems[volume.disk] = _reason(error)
        return self

    def __exit__(self, *_: object) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def recorder(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> VolumeRecorder:
        """Return what records one run. Any number of runs may follow each other."""
        return VolumeRecorder([self._record(volume, clock_ns) for volume in self.volumes])

    def _record(self, volume: AttachedVolume, clock_ns: Callable[[], int]) -> _Record:
        problem = self._problems.get(volume.disk)
        return _Record(volume, self._page_of(volume), clock_ns, problem)

    def _page_of(self, volume: AttachedVolume) -> Callable[[], LogPage]:
        return lambda: log_page.parse(self._read(self._descriptors[volume.disk]))


class VolumeRecorder:
    """Reads the volumes' counters during one run: `begin`, then `beats` in a ticker, then `end`."""

    def __init__(self, records: Sequence[_Record] = ()) -> None:
        self._records = tuple(records)
        #: One beat for each volume, so none for none.
        self.beats = tuple(record.beat for record in self._records)

    def begin(self) -> None:
        """Take the first readings."""
        for record in self._records:
            record.read()

    def end(self) -> None:
        """Take the last readings, after the last beat."""
        self.begin()

    def uses(self) -> tuple[VolumeUse, ...]:
        """Return what was read so far."""
        return tuple(record.use() for record in self._records)


class _Record:
    """The readings of one volume; it keeps at most `_MOST_READINGS` and then halves them."""

    def __init__(
        self,
        volume: AttachedVolume,
        page: Callable[[], LogPage],
        clock_ns: Callable[[], int],
        problem: str | None,
    ) -> None:
        self.beat = Beat(INTERVAL_NS, self.read, _SHARE)
        self._volume, self._page, self._clock_ns = volume, page, clock_ns
        self._problem = problem
        self._first: tuple[int, LogPage] | None = None
        self._last: LogPage | None = None
        self._readings: list[Reading] = []

    def read(self) -> None:
        """Take a reading, unless one has failed."""
        if self._problem:
            return
        try:
            self._add(self._clock_ns(), self._page())
        except (OSError, LogPageError) as error:
            self._problem = _reason(error)

    def _add(self, now_ns: int, page: LogPage) -> None:
        begun_ns, first = self._first = self._first or (now_ns, page)
        since(self._last or first, page)  # it may have been attached anew twice
        self._last = page
        self._readings.append(Reading(now_ns - begun_ns, since(first, page)))
        if len(self._readings) > _MOST_READINGS:
            del self._readings[1:-1:2]
            self.beat.interval_ns *= 2

    def use(self) -> VolumeUse:
        """Return the readings so far."""
        return VolumeUse(self._volume, tuple(self._readings), self._problem)


def _reason(error: OSError | LogPageError) -> str:
    if isinstance(error, LogPageError):
        return str(error)
    return f"the log page cannot be read ({error.strerror or error})"
