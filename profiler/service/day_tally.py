# SPDX-License-Identifier: Apache-2.0
"""What a day's samples of the whole host add up to, for the record of the day."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.bpf.probes.throttling import Throttled
from sysctl.knobs.writeback import Thresholds

#: A gap between samples that is longer (a suspended host) says nothing of the time in between.
LONGEST_GAP_NS = 5 * 10**9
#: Writers stall in a sample if their planned sleeps are at least this part of it, as in escalation.
STALLED_PART = 0.1


@dataclass(frozen=True)
class StallSample:
    """The time, the data in memory that is dirty or under write-back, the thresholds, the sleeps.

    The sleeps are those since the probes were attached.
    """

    at_ns: int
    held_bytes: int
    thresholds: Thresholds
    throttled: Throttled

    @property
    def is_above_freerun(self) -> bool:
        """Whether there is so much data that the kernel may throttle writers."""
        return self.held_bytes > self.thresholds.freerun_bytes

    @property
    def is_burst(self) -> bool:
        """Whether there is more data than the threshold at which the kernel begins to write."""
        return self.held_bytes > self.thresholds.background_bytes


class DayTally:
    """Adds samples about a second apart. Times are in ns, of the state at the begin of a sample.

    A sample in which writers stalled is of a burst, also if the burst began within it.
    """

    def __init__(self) -> None:
        self.watched_ns = self.burst_ns = self.above_freerun_ns = self.stalled_ns = 0
        self.throttled_ns = self.pauses = self.peak_bytes = 0
        self._first: StallSample | None = None
        self._last: StallSample | None = None

    @property
    def seconds(self) -> float:
        """The time from the first to the last sample, with gaps."""
        if self._first is None or self._last is None:
            return 0.0
        return (self._last.at_ns - self._first.at_ns) / 10**9

    def add(self, sample: StallSample) -> None:
        """Add a sample."""
        before, self._last = self._last, sample
        self.peak_bytes = max(self.peak_bytes, sample.held_bytes)
        if before is None:
            self._first = sample
            return
        passed_ns = sample.at_ns - before.at_ns
        slept_ns = sample.throttled.planned_ns - before.throttled.planned_ns
        is_stalled = slept_ns > 0 and slept_ns >= STALLED_PART * passed_ns
        counted_ns = min(passed_ns, LONGEST_GAP_NS)
        self.throttled_ns += slept_ns
        self.pauses += sample.throttled.pauses - before.throttled.pauses
        self.watched_ns += counted_ns
        self.stalled_ns += counted_ns if is_stalled else 0
        self.above_freerun_ns += counted_ns if before.is_above_freerun else 0
        is_burst = is_stalled or before.is_burst
        self.burst_ns += counted_ns if is_burst else 0

    def next_day(self) -> DayTally:
        """Return an empty tally that begins where this one ends."""
        following = DayTally()
        if self._last is not None:
            following.add(self._last)
        return following
