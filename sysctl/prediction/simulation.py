"""A burst of writes through the kernel's dirty throttling, step by step.

One state, the bytes held (dirty or under write-back), between two rates: what the source brings
and what the device writes. In between stands `balance_dirty_pages()` of the kernel's
mm/page-writeback.c (as of Linux 6.18), of which this has, for all writers together: the freerun
ceiling, the cubic `pos_ratio_polynom()`, the device's own line of `wb_position_ratio()`, and the
rate limit of a writer that `wb_update_dirty_ratelimit()` moves every 200 ms. Device and memory have
no other writer, and memory does not shrink meanwhile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from sysctl.writeback import Thresholds

_STEP_S = 0.01
#: `BANDWIDTH_INTERVAL`: how often the kernel moves the rate limit.
_CONTROL_INTERVAL_S = 0.2
#: Writers that are as fast as the device to this part are so until the end, and on average those
#: are that were throttled for so long: of what is left, only the last seconds are gone through.
_STEADY_PART = 0.01
_LONG_S = 300.0
_LAST_S = 120.0


@dataclass(frozen=True)
class Burst:
    """What is written: so many bytes, beginning `start_s` after the clock.

    `source_bytes_per_s` is its rate while nothing makes it wait, `flushed_bytes_per_s` the same
    while the device writes at the same time, which takes CPU time and locks from it. The last
    `tail_bytes` are written by half of the `writers`, since these do not end together. A writer's
    rate limit is at first `rate_limit_part` of the device's rate: the kernel keeps it from what was
    written before.
    """

    size_bytes: float
    start_s: float
    source_bytes_per_s: float
    flushed_bytes_per_s: float
    tail_bytes: float = 0.0
    writers: int = 1
    rate_limit_part: float = 1.0


@dataclass(frozen=True)
class Course:
    """What came of it: when the last byte was taken, and the most and the last bytes held.

    `flush_start_s` is when the device began to write, None when it did not before the return;
    `throttled_s` how long writers could be made to wait.
    """

    return_s: float
    peak_bytes: float
    held_bytes: float
    flush_start_s: float | None
    throttled_s: float


class _Throttle:
    """The kernel's control of the writers: each may write as much per second."""

    def __init__(self, burst: Burst, thresholds: Thresholds, device_bytes_per_s: float) -> None:
        self._limit = float(max(1, thresholds.dirty_bytes))
        self._setpoint = (min(thresholds.freerun_bytes, self._limit - 1) + self._limit) / 2
        self._device = device_bytes_per_s
        self._rate_limit = self._balanced = device_bytes_per_s * burst.rate_limit_part
        self._since_s = self._dirtied = 0.0

    def rate(self, held_bytes: float) -> float:
        """What a writer may write now: the rate limit times the position ratio, in bytes/s."""
        return self._rate_limit * self._position_ratio(held_bytes)

    def _position_ratio(self, held: float) -> float:
        if held >= self._limit:
            return 0.0
        ratio = 1 + ((self._setpoint - held) / (self._limit - self._setpoint)) ** 3
        span = 8 * self._device  # one device: its own threshold is the limit
        return max(0.0, ratio * max((self._setpoint + span - held) / span, 0.25))

    def after(self, step_s: float, taken_bytes: float, held_bytes: float) -> None:
        """Tell what was written in a step; moves the rate limit after each control interval."""
        self._since_s += step_s
        self._dirtied += taken_bytes
        if self._since_s >= _CONTROL_INTERVAL_S:
            self._adapt(held_bytes, self._dirtied / self._since_s)
            self._since_s = self._dirtied = 0.0

    def _adapt(self, held: float, dirtied_bytes_per_s: float) -> None:
        allowed = self.rate(held)
        balanced = min(allowed * self._device / max(dirtied_bytes_per_s, 1.0), self._device)
        if held < self._setpoint:
            step = max(0.0, min(self._balanced, balanced, allowed) - self._rate_limit)
        else:
            step = max(0.0, self._rate_limit - max(self._balanced, balanced, allowed))
        if step:
            step /= 8 * 2.0 ** min(60, int(self._rate_limit / (2 * step)))
        self._rate_limit += step if self._rate_limit < balanced else -step
        self._balanced = balanced


class _Run:
    """A burst on its way."""

    def __init__(
        self, burst: Burst, thresholds: Thresholds, device_bytes_per_s: float, age_s: float
    ) -> None:
        self._burst, self._at, self._device = burst, thresholds, device_bytes_per_s
        self._flush_age_s = burst.start_s + age_s
        self._throttle = _Throttle(burst, thresholds, device_bytes_per_s)
        self._time_s, self._left = burst.start_s, burst.size_bytes
        self._held = self._peak = self._throttled_s = 0.0
        self._flush_start_s: float | None = None

    def course(self) -> Course:
        while self._left > 1:
            if self._held > self._at.freerun_bytes:
                self._throttled_step()
            else:
                self._free_step()
        return Course(self._time_s, self._peak, self._held, self._flush_start_s, self._throttled_s)

    def _source(self) -> float:
        flushed = self._flush_start_s is not None
        rate = self._burst.flushed_bytes_per_s if flushed else self._burst.source_bytes_per_s
        return rate / 2 if self._left <= self._burst.tail_bytes else rate

    def _free_step(self) -> None:
        """On to the next moment at which a rate changes."""
        rate = self._source()
        grows = rate - (self._device if self._flush_start_s is not None else 0.0)
        steps = [self._left / rate]
        if self._left > self._burst.tail_bytes:
            steps.append((self._left - self._burst.tail_bytes) / rate)
        if self._flush_start_s is None and self._time_s < self._flush_age_s:
            steps.append(self._flush_age_s - self._time_s)
        for threshold in (self._at.background_bytes, self._at.freerun_bytes):
            if grows > 0 and self._held <= threshold:
                steps.append((threshold - self._held) / grows)
        self._advance(min(max(min(steps), _STEP_S), steps[0]), rate)

    def _throttled_step(self) -> None:
        rate = min(self._source(), self._active_writers() * self._throttle.rate(self._held))
        if abs(rate / self._device - 1) < _STEADY_PART or self._throttled_s > _LONG_S:
            self._skip()
        step_s = min(_STEP_S, self._left / rate) if rate else _STEP_S
        self._throttled_s += step_s
        self._advance(step_s, rate)
        self._throttle.after(step_s, rate * step_s, self._held)

    def _active_writers(self) -> float:
        writers = self._burst.writers
        return max(1.0, writers / 2) if self._left <= self._burst.tail_bytes else writers

    def _skip(self) -> None:
        """Go through most of a long steady state at once; what is held stays as it is."""
        skipped = max(0.0, self._left - self._burst.tail_bytes - self._device * _LAST_S)
        self._left -= skipped
        self._time_s += skipped / self._device
        self._throttled_s += skipped / self._device

    def _advance(self, step_s: float, rate: float) -> None:
        self._left -= rate * step_s
        self._held += rate * step_s
        if self._flush_start_s is not None:
            self._held = max(0.0, self._held - self._device * step_s)
        self._time_s += step_s
        self._peak = max(self._peak, self._held)
        is_due = self._held > self._at.background_bytes or self._time_s >= self._flush_age_s
        if self._flush_start_s is None and is_due:
            self._flush_start_s = self._time_s


@lru_cache(maxsize=8192)
def simulate(
    burst: Burst, thresholds: Thresholds, device_bytes_per_s: float, flush_age_s: float = math.inf
) -> Course:
    """Run the burst to its return. All rates must be above 0.

    The device begins to write above the background threshold, or when the first bytes are of
    `flush_age_s`.
    """
    return _Run(burst, thresholds, device_bytes_per_s, flush_age_s).course()
