# SPDX-License-Identifier: Apache-2.0
"""A burst onto the named volumes: when it began, its rates, and what its end is worth.

The time saved is that of the model (`sysctl.evidence.prediction`) with the rates of this burst: how
long it would have taken under the thresholds that were not in force, less how long it took.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sysctl.evidence.prediction import time_to_return_s
from sysctl.govern.bounds import Raise
from sysctl.govern.samples import (
    NS_PER_S,
    HostSample,
    arrived_bytes,
    dirtied_between,
    rate_per_s,
    written_bytes,
)
from sysctl.knobs.writeback import Thresholds

MIB = 2**20
#: Data that arrives at this rate begins a burst, and at less than the other one it is calm.
BEGIN_BYTES_PER_S, CALM_BYTES_PER_S = 8 * MIB, 2 * MIB
#: The last moment with this share of the mean rate is when a burst returned.
_LAST_SHARE = 0.05


@dataclass(frozen=True)
class BurstAccount:
    """A burst for which thresholds were raised, or would have been. Times are of the samples.

    `volumes` are the indexes of the named volumes that it went to. `saved_s` is None if the rates
    of source and device were not seen. `writer` wrote the most: an admitted control group or
    program, without --admit a program; None if no writer was seen.
    """

    began_ns: int
    returned_ns: int
    raised_at_ns: int
    arrived_bytes: int
    volumes: tuple[int, ...]
    raised_ns: int
    peak_held_bytes: int
    saved_s: float | None
    ended_by: str
    writer: str | None = None

    @property
    def return_s(self) -> float:
        """How long the burst took to return (s)."""
        return (self.returned_ns - self.began_ns) / NS_PER_S


class Burst:
    """A burst so far; `add` is given each pair of consecutive samples, the first included.

    `earlier_bytes` of it came just before the first sample, in a time that is not known.
    """

    def __init__(self, first: HostSample, earlier_bytes: int = 0) -> None:
        self.began_ns = first.time_ns
        self.arrived_bytes = earlier_bytes
        self.peak_held_bytes = 0
        self.raised_at_ns: int | None = None
        self.is_unhelped = False
        self.writes: Counter[str] = Counter()
        self._of_volumes = [0] * len(first.volumes)
        is_alone = first.admitted_bytes is None
        self._others_bytes = first.held_bytes - is_alone * first.named_held_bytes
        self._last_arrival_ns = first.time_ns
        self._last_of_volumes_ns = [first.time_ns] * len(first.volumes)
        self._free_bytes = self._free_ns = 0
        self._flushed_bytes = self._flushed_ns = 0

    def add(self, before: HostSample, after: HostSample) -> None:
        """Add what came and went between two samples."""
        arrived, time_ns = arrived_bytes(before, after), after.time_ns - before.time_ns
        self.arrived_bytes += arrived
        self.writes.update(after.writes)
        dirtied = dirtied_between(before.volumes, after.volumes)
        self._of_volumes = [a + b for a, b in zip(self._of_volumes, dirtied)]
        self.peak_held_bytes = max(self.peak_held_bytes, after.held_bytes)
        mean_per_s = self.arrived_bytes * NS_PER_S / max(1, after.time_ns - self.began_ns)
        least_per_s = max(CALM_BYTES_PER_S, mean_per_s * _LAST_SHARE)
        if rate_per_s(arrived, (before, after)) >= least_per_s:
            self._last_arrival_ns = after.time_ns
            for volume, size in enumerate(dirtied):
                if rate_per_s(size, (before, after)) >= least_per_s:
                    self._last_of_volumes_ns[volume] = after.time_ns
            if after.held_bytes <= after.thresholds.freerun_bytes:
                self._free_bytes += arrived
                self._free_ns += time_ns
        if before.held_bytes > before.thresholds.background_bytes:
            self._flushed_bytes += written_bytes(before, after)
            self._flushed_ns += time_ns

    def account(
        self, at_rest: Thresholds, raised: Raise, raised_ns: int, ended_by: str, *, is_dry: bool
    ) -> BurstAccount:
        """Return its account; with `is_dry` the thresholds were never raised."""
        return BurstAccount(
            began_ns=self.began_ns,
            returned_ns=self._returned_ns(),
            raised_at_ns=self.began_ns if self.raised_at_ns is None else self.raised_at_ns,
            arrived_bytes=self.arrived_bytes,
            volumes=self._main_volumes(),
            raised_ns=raised_ns,
            peak_held_bytes=self.peak_held_bytes,
            saved_s=self._saved_s(at_rest, raised.highest, is_dry=is_dry),
            ended_by=ended_by,
            writer=self.writer,
        )

    @property
    def writer(self) -> str | None:
        """The writer that wrote the most; None if none was seen."""
        most = max(self.writes, key=lambda each: self.writes[each], default=None)
        return most if most and self.writes[most] else None

    def _main_volumes(self) -> tuple[int, ...]:
        """Return the volumes that most of it went to: what trickles onto others is none of it."""
        most = max(self._of_volumes, default=0)
        return tuple(n for n, size in enumerate(self._of_volumes) if size * 10 >= most > 0)

    def _returned_ns(self) -> int:
        last_ns = [self._last_of_volumes_ns[volume] for volume in self._main_volumes()]
        return max(last_ns, default=self._last_arrival_ns)

    def _saved_s(self, at_rest: Thresholds, raised: Thresholds, *, is_dry: bool) -> float | None:
        took_s = (self._returned_ns() - self.began_ns) / NS_PER_S
        under_rest_s = self._return_s(at_rest, at_rest)
        under_raised_s = self._return_s(raised, at_rest)
        if under_rest_s is None or under_raised_s is None:
            return None
        saved_s = took_s - under_raised_s if is_dry else under_rest_s - took_s
        return max(0.0, saved_s)

    def _return_s(self, at: Thresholds, at_rest: Thresholds) -> float | None:
        """Return the predicted time; others' dirty pages take their part of both thresholds."""
        if not (self._free_ns and self._flushed_ns and self._free_bytes and self._flushed_bytes):
            return None
        source = self._free_bytes * NS_PER_S / self._free_ns
        device = self._flushed_bytes * NS_PER_S / self._flushed_ns
        free = Thresholds(
            max(0, at.background_bytes - self._others_bytes),
            max(0, at.dirty_bytes - self._others_bytes),
        )
        flushed_from = max(0, at_rest.background_bytes - self._others_bytes)
        begins_s = min(flushed_from, self.arrived_bytes) / source
        return time_to_return_s(self.arrived_bytes, free, begins_s, source, device)
