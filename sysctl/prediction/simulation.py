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

#: The longest step; a shorter one where writers would fill the throttled range in a few of these.
_STEP_S = 0.01
_STEPS_IN_RANGE = 4
#: The shortest step brings that part of the burst: less is lost in the rounding of floats.
_TELLING_PART = 1e-12
#: `BANDWIDTH_INTERVAL`: how often the kernel moves the rate limit.
_CONTROL_INTERVAL_S = 0.2
#: Gone through step by step are the beginning, what the device takes in the last `_LAST_S` before
#: the tail, and the tail; each of at most so many steps, so that a course takes bounded time.
_FIRST_STEPS, _LAST_STEPS, _TAIL_STEPS = 4000, 6000, 4000
_LAST_S = 40.0


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
        self._setpoint = self._limit - _throttled_range_bytes(thresholds) / 2
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
            step /= 8 * 2.0 ** int(min(60.0, self._rate_limit / (2 * step)))
        self._rate_limit += step if self._rate_limit < balanced else -step
        self._balanced = balanced


def _throttled_range_bytes(thresholds: Thresholds) -> float:
    """From the freerun ceiling to the limit; never nothing, also where a float cannot tell them."""
    return max(thresholds.dirty_bytes - thresholds.freerun_bytes, thresholds.dirty_bytes * 1e-9, 1)


class _Run:
    """A burst on its way."""

    def __init__(
        self, burst: Burst, thresholds: Thresholds, device_bytes_per_s: float, age_s: float
    ) -> None:
        self._burst, self._at, self._device = burst, thresholds, device_bytes_per_s
        self._limit = float(max(1, thresholds.dirty_bytes))
        self._flush_age_s = burst.start_s + age_s
        self._throttle = _Throttle(burst, thresholds, device_bytes_per_s)
        fastest = max(burst.source_bytes_per_s, burst.flushed_bytes_per_s)
        few_bytes = _throttled_range_bytes(thresholds) / _STEPS_IN_RANGE
        least_bytes = burst.size_bytes * _TELLING_PART
        self._step_s = max(min(_STEP_S, few_bytes / fastest), least_bytes / fastest)
        self._time_s, self._left = burst.start_s, float(burst.size_bytes)
        self._held = self._peak = self._throttled_s = 0.0
        self._flush_start_s: float | None = None

    def course(self) -> Course:
        tail = self._burst.tail_bytes
        self._go(tail + self._device * _LAST_S, _FIRST_STEPS)
        self._go(tail, _LAST_STEPS)
        self._go(0.0, _TAIL_STEPS)
        return Course(self._time_s, self._peak, self._held, self._flush_start_s, self._throttled_s)

    def _go(self, until_bytes: float, steps: int) -> None:
        """On until so much is left: in at most so many steps, and the rest at once."""
        for _ in range(steps):
            if self._left <= until_bytes:
                return
            if self._held > self._at.freerun_bytes:
                self._throttled_step()
            else:
                self._free_step()
        self._jump(until_bytes)

    def _jump(self, until_bytes: float) -> None:
        """Go through a long time at once.

        What is held is bounded, so over a long time writers are as fast as the device, or as
        their source where that is slower; the error is less than the device takes to write the
        range in which they are throttled.
        """
        rate = min(self._source(), self._device)
        step_s = max(0.0, self._left - until_bytes) / rate
        self._throttled_s += step_s if self._held > self._at.freerun_bytes else 0.0
        self._advance(step_s, rate)

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
        self._advance(min(max(min(steps), self._step_s), steps[0]), rate)

    def _throttled_step(self) -> None:
        rate = min(self._source(), self._active_writers() * self._throttle.rate(self._held))
        step_s = min(self._step_s, self._left / rate) if rate else self._step_s
        self._throttled_s += step_s
        self._advance(step_s, rate)
        self._throttle.after(step_s, rate * step_s, self._held)

    def _active_writers(self) -> float:
        writers = self._burst.writers
        return max(1.0, writers / 2) if self._left <= self._burst.tail_bytes else writers

    def _advance(self, step_s: float, rate: float) -> None:
        """Take what comes at that rate, but never more than fits below the limit."""
        written = self._device * step_s if self._flush_start_s is not None else 0.0
        taken = min(rate * step_s, max(0.0, self._limit - self._held + written))
        self._left -= taken
        self._held = max(0.0, self._held + taken - written)
        self._time_s += step_s
        self._peak = max(self._peak, self._held)
        is_due = self._held > self._at.background_bytes or self._time_s >= self._flush_age_s
        if self._flush_start_s is None and is_due:
            self._flush_start_s = self._time_s


@lru_cache(maxsize=8192)
def simulate(
    burst: Burst, thresholds: Thresholds, device_bytes_per_s: float, flush_age_s: float = math.inf
) -> Course:
    """Run the burst to its return, in bounded time whatever its size. All rates must be above 0.

    The device begins to write above the background threshold, or when the first bytes are of
    `flush_age_s`. A background threshold that is not below the other counts as half of that, as in
    the kernel's `domain_dirty_limits()`.
    """
    dirty = thresholds.dirty_bytes
    if thresholds.background_bytes >= dirty:
        thresholds = Thresholds(dirty // 2, dirty)
    return _Run(burst, thresholds, device_bytes_per_s, flush_age_s).course()
