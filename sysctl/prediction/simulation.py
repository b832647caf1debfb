"""A burst of writes through the kernel's dirty throttling, step by step.

One state, the bytes held (dirty or under write-back), between two rates: what the source brings
and what the device writes. In between stands `balance_dirty_pages()` of the kernel's
mm/page-writeback.c (as of Linux 6.18), of which this has, for all writers together: the freerun
ceiling, the cubic `pos_ratio_polynom()`, the device's own control line of `wb_position_ratio()`,
and the rate limit that `wb_update_dirty_ratelimit()` moves every 200 ms. Device and memory have no
other writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sysctl.writeback import Thresholds

_STEP_S = 0.01
#: `BANDWIDTH_INTERVAL`: how often the kernel moves the rate limit.
_CONTROL_INTERVAL_S = 0.2
#: With the rate limit steady for that long, what is left takes its bytes by the device's rate.
_STEADY_S = 10.0
_STEADY_PART = 0.02


@dataclass(frozen=True)
class Burst:
    """What is written: so many bytes, beginning `start_s` after the clock.

    `source_bytes_per_s` is its rate while nothing makes it wait, `flushed_bytes_per_s` the same
    while the device writes at the same time, which takes CPU time and locks from it.
    """

    size_bytes: float
    start_s: float
    source_bytes_per_s: float
    flushed_bytes_per_s: float


@dataclass(frozen=True)
class Course:
    """What came of it: the last byte was taken at `return_s`, and the most and the last held."""

    return_s: float
    peak_bytes: float
    held_bytes: float
    throttled_s: float


class _Throttle:
    """The kernel's control of the writers' rate, in bytes/s of all writers together."""

    def __init__(self, thresholds: Thresholds, device_bytes_per_s: float) -> None:
        self._limit = float(thresholds.dirty_bytes)
        self._setpoint = (thresholds.freerun_bytes + self._limit) / 2
        self._device = device_bytes_per_s
        self._rate_limit = self._balanced = device_bytes_per_s

    def rate(self, held_bytes: float) -> float:
        """What the writers may write now: the rate limit times the position ratio."""
        return self._rate_limit * self._position_ratio(held_bytes)

    def _position_ratio(self, held: float) -> float:
        if held >= self._limit:
            return 0.0
        ratio = 1 + ((self._setpoint - held) / (self._limit - self._setpoint)) ** 3
        span = 8 * self._device  # wb_position_ratio() with one device: its threshold is the limit
        left = self._setpoint + span - held
        return max(0.0, ratio * max(left / span, 0.25))

    def adapt(self, held_bytes: float, dirtied_bytes_per_s: float) -> None:
        """Move the rate limit, as after each control interval."""
        allowed = self.rate(held_bytes)
        balanced = allowed * self._device / max(dirtied_bytes_per_s, 1.0)
        balanced = min(balanced, self._device)
        if held_bytes < self._setpoint:
            step = max(0.0, min(self._balanced, balanced, allowed) - self._rate_limit)
        else:
            step = max(0.0, self._rate_limit - max(self._balanced, balanced, allowed))
        if step:
            step /= 8 * 2.0 ** min(60, int(self._rate_limit / (2 * step)))
        self._rate_limit += step if self._rate_limit < balanced else -step
        self._balanced = balanced


@lru_cache(maxsize=4096)
def simulate(burst: Burst, thresholds: Thresholds, device_bytes_per_s: float) -> Course:
    """Run the burst to its return."""
    throttle = _Throttle(thresholds, device_bytes_per_s)
    time_s, held, left, peak, throttled_s = burst.start_s, 0.0, burst.size_bytes, 0.0, 0.0
    since_control_s, dirtied = 0.0, 0.0
    is_flushed = False
    while left > 0:
        source = burst.flushed_bytes_per_s if is_flushed else burst.source_bytes_per_s
        is_throttled = held > thresholds.freerun_bytes
        rate = min(source, throttle.rate(held)) if is_throttled else source
        taken = min(rate * _STEP_S, left)
        step_s = taken / rate if rate and taken == left else _STEP_S
        left -= taken
        held += taken
        is_flushed = is_flushed or held > thresholds.background_bytes
        if is_flushed:
            held = max(0.0, held - device_bytes_per_s * step_s)
        time_s += step_s
        peak = max(peak, held)
        if not is_throttled:
            since_control_s, dirtied = 0.0, 0.0
            continue
        throttled_s += step_s
        since_control_s += step_s
        dirtied += taken
        if since_control_s >= _CONTROL_INTERVAL_S:
            throttle.adapt(held, dirtied / since_control_s)
            since_control_s, dirtied = 0.0, 0.0
    return Course(time_s, peak, held, throttled_s)
