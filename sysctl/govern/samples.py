# SPDX-License-Identifier: Apache-2.0
"""What the governor sees at one moment, and the rates between two moments."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from sysctl.govern.groups import GroupMemory
from sysctl.knobs.writeback import Thresholds

NS_PER_S = 10**9
#: The host is calm while at most this share of the background threshold is dirty.
_BUSY_SHARE = 0.1


def busy_bytes(thresholds: Thresholds) -> float:
    """Return the dirty bytes, with those under write-back, above which a host is not calm."""
    return _BUSY_SHARE * thresholds.background_bytes


@dataclass(frozen=True)
class VolumeState:
    """A volume's dirty bytes, bytes under write-back, and totals since it was made.

    `dirtied_bytes` counts a page each time it becomes dirty, `written_bytes` each time it was
    written to the device.
    """

    dirty_bytes: int
    writeback_bytes: int
    dirtied_bytes: int
    written_bytes: int

    @property
    def held_bytes(self) -> int:
        """Bytes that are not yet on the device."""
        return self.dirty_bytes + self.writeback_bytes


@dataclass(frozen=True)
class HostSample:
    """The host and the named volumes at one moment of a clock that never jumps.

    `thresholds` are in force, and `values` are the sysctls that they come from: the non-zero member
    of each pair. Ratios are a percentage of `dirtyable_bytes`; `available_bytes` is MemAvailable.
    `memory_some_ns` and `memory_full_ns` are the kernel's totals of memory pressure, None if it
    keeps none. A volume that is gone is None.

    `admitted_bytes` is what the admitted writers dirtied on the named volumes since the governor
    began, None if every program is admitted. `writes` has what each writer dirtied since the sample
    before, as far as that was looked at, and `groups` the memory of the admitted control groups.
    """

    time_ns: int
    dirty_bytes: int
    writeback_bytes: int
    thresholds: Thresholds
    dirtyable_bytes: int
    available_bytes: int
    values: Mapping[str, int]
    volumes: tuple[VolumeState | None, ...]
    memory_some_ns: int | None = None
    memory_full_ns: int | None = None
    admitted_bytes: int | None = None
    writes: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[GroupMemory, ...] = ()

    @property
    def held_bytes(self) -> int:
        """The host's bytes that are dirty or under write-back: what a crash would lose."""
        return self.dirty_bytes + self.writeback_bytes

    @property
    def is_busy(self) -> bool:
        """Whether so much is dirty that something may have to be decided."""
        return self.held_bytes > busy_bytes(self.thresholds)

    @property
    def named_held_bytes(self) -> int:
        """Those of the named volumes."""
        return sum(volume.held_bytes for volume in self.volumes if volume)

    @property
    def named_writeback_bytes(self) -> int:
        """Those of the named volumes that are under write-back."""
        return sum(volume.writeback_bytes for volume in self.volumes if volume)


#: The named volumes' states at one moment; None for one that is gone.
VolumeStates = Sequence[Optional[VolumeState]]


def arrived_bytes(before: HostSample, after: HostSample) -> int:
    """Return what admitted writers dirtied on the named volumes between two samples."""
    if before.admitted_bytes is not None and after.admitted_bytes is not None:
        return after.admitted_bytes - before.admitted_bytes
    return sum(dirtied_between(before.volumes, after.volumes))


def dirtied_between(before: VolumeStates, after: VolumeStates) -> tuple[int, ...]:
    """Return what all writers dirtied on each named volume."""
    return tuple(b.dirtied_bytes - a.dirtied_bytes for a, b in _known(before, after))


def written_bytes(before: HostSample, after: HostSample) -> int:
    """Return what the named volumes wrote to their devices between two samples."""
    known = _known(before.volumes, after.volumes)
    return sum(max(0, b.written_bytes - a.written_bytes) for a, b in known)


_NOTHING = VolumeState(0, 0, 0, 0)


def _known(before: VolumeStates, after: VolumeStates) -> Iterator[tuple[VolumeState, VolumeState]]:
    """Yield each volume's two states; equal ones if it was gone, or is a new one of that name."""
    for one, other in zip(before, after):
        is_same = one and other and one.dirtied_bytes <= other.dirtied_bytes
        yield (one, other) if one and other and is_same else (_NOTHING, _NOTHING)


class Recent:
    """The samples of the last moments, at least two if there were two."""

    def __init__(self, keep_ns: int) -> None:
        self._keep_ns = keep_ns
        self._samples: deque[HostSample] = deque()

    def add(self, sample: HostSample) -> None:
        """Add a sample and drop those that are too old."""
        self._samples.append(sample)
        while len(self._samples) > 2 and self._age_ns(self._samples[1]) >= self._keep_ns:
            self._samples.popleft()

    def _age_ns(self, sample: HostSample) -> int:
        return self._samples[-1].time_ns - sample.time_ns

    def pair(self, span_ns: int) -> tuple[HostSample, HostSample]:
        """Return the last sample, and one that is older by `span_ns` or as much as there is."""
        last = self._samples[-1]
        older = [each for each in self._samples if self._age_ns(each) >= span_ns]
        return (older[-1] if older else self._samples[0]), last

    def latest_pair(self) -> tuple[HostSample, HostSample] | None:
        """Return the last two samples; None if there is only one."""
        return (self._samples[-2], self._samples[-1]) if len(self._samples) > 1 else None


def rate_per_s(amount: float, pair: Sequence[HostSample]) -> float:
    """Return an amount per second of a pair's time; 0 for no time."""
    time_ns = pair[-1].time_ns - pair[0].time_ns
    return amount * NS_PER_S / time_ns if time_ns > 0 else 0.0
