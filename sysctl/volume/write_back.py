# SPDX-License-Identifier: Apache-2.0
"""When a pull returns, and whether write-back settings can make it return sooner.

The law is that of `sysctl.evidence.prediction`, here for a device whose rate changes when credits
run out. Settings help only if the source is faster than the device and dirty memory exceeds
freerun. They change the time to return, never the volume's rate or its credits.

Times count from when the volume begins to write. The kernel begins at the background threshold, so
the times to return and to durable are up to `Return.begins_s` longer; `writewise predict` includes
that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysctl.evidence.prediction import IN_TIME, solve_constants, write_back_begins_s
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds, effective_thresholds
from sysctl.volume.timeline import RatePhase


def _ratios(dirty: int, background: int) -> Setting:
    return Setting(((DIRTY_PAIR[0], dirty), (BACKGROUND_PAIR[0], background)))


#: The kernel's default (mm/page-writeback.c), assumed if nothing else is known.
DEFAULT = _ratios(20, 10)
#: The candidates compared with it, the one with the least dirty memory first.
CANDIDATES = tuple(
    _ratios(*pair) for pair in ((20, 10), (30, 20), (40, 10), (60, 10), (80, 10), (80, 40))
)


@dataclass(frozen=True)
class Return:
    """When a pull returns under a setting, and how long after its start write-back begins.

    `waits_from_s` is when writers begin to wait for write-back; None if they never do.
    """

    setting: Setting
    return_s: float
    begins_s: float
    waits_from_s: float | None = None


@dataclass(frozen=True)
class WriteBack:
    """The effect of write-back on a pull. `unthrottled_s` is the time without any wait for it.

    `best` is the first candidate about as fast as the fastest; None if none is much faster than the
    `current` setting.
    """

    unthrottled_s: float
    current: Return
    candidates: tuple[Return, ...]
    best: Return | None

    @property
    def makes_writers_wait(self) -> bool:
        """Return whether the pull returns later than its source allows."""
        return self.current.return_s > self.unthrottled_s * (1 + IN_TIME)


@dataclass(frozen=True)
class Memory:
    """The memory that can be dirtied, in bytes, and the sysctls in force."""

    dirtyable_bytes: int
    current: Setting = DEFAULT


def judge(
    size_bytes: float, memory: Memory, source_bytes_per_s: float, phases: Sequence[RatePhase]
) -> WriteBack:
    """Return the effect of write-back on a pull whose volume writes at the rates of `phases`."""

    def returns(setting: Setting) -> Return:
        values = replace_values(memory.current.values, setting.values)
        at = _thresholds(values, memory.dirtyable_bytes)
        writers = _written(size_bytes, at, source_bytes_per_s, phases)
        return Return(
            setting,
            writers.now_s,
            write_back_begins_s(at, values, round(size_bytes), source_bytes_per_s),
            writers.waits_from_s,
        )

    current = returns(memory.current)
    candidates = tuple(map(returns, CANDIDATES))
    soonest_s = min(each.return_s for each in candidates)
    best = next(each for each in candidates if each.return_s <= soonest_s * (1 + IN_TIME))
    helps = best.return_s * (1 + IN_TIME) < current.return_s
    return WriteBack(size_bytes / source_bytes_per_s, current, candidates, best if helps else None)


def _thresholds(values: Mapping[str, int], dirtyable_bytes: int) -> Thresholds:
    """Return the thresholds, none above the memory that can be dirtied."""
    at = effective_thresholds(values, dirtyable_bytes)
    return Thresholds(
        min(at.background_bytes, dirtyable_bytes), min(at.dirty_bytes, dirtyable_bytes)
    )


def return_s(
    size_bytes: float, at: Thresholds, source_bytes_per_s: float, phases: Sequence[RatePhase]
) -> float:
    """Return the time to return (s) with a device that writes at the rates of `phases`.

    With one phase it is `sysctl.evidence.prediction.time_to_return_s`.
    """
    return _written(size_bytes, at, source_bytes_per_s, phases).now_s


def _written(
    size_bytes: float, at: Thresholds, source_bytes_per_s: float, phases: Sequence[RatePhase]
) -> _Writers:
    """Return the writers at the moment when the pull returns."""
    writers = _Writers(at, source_bytes_per_s, size_bytes)
    for phase in phases[:-1]:
        if writers.go(phase.bytes_per_s, phase.duration_s):
            return writers
    writers.go(phases[-1].bytes_per_s, math.inf)
    return writers


@dataclass
class _Writers:
    """The progress of a pull's writers. `held_bytes` are dirty or under write-back."""

    at: Thresholds
    source_bytes_per_s: float
    left_bytes: float
    now_s: float = 0.0
    held_bytes: float = 0.0
    waits_from_s: float | None = None

    def go(self, device_bytes_per_s: float, time_s: float) -> bool:
        """Continue for a time at a device rate; return whether the pull returned in that time."""
        source, device = self.source_bytes_per_s, device_bytes_per_s
        room_bytes = self.at.setpoint_bytes - self.at.freerun_bytes
        slowed_bytes = self.at.setpoint_bytes - room_bytes * min(1.0, source / device - 1)
        rise = source - device
        free_s = max(0.0, (slowed_bytes - self.held_bytes) / rise) if rise > 0 else math.inf
        step_s = min(free_s, time_s, self.left_bytes / source)
        is_over = self._advance(step_s, step_s * source, step_s * rise)
        if is_over or step_s >= time_s:
            return is_over
        return self._throttled(device, room_bytes, time_s - step_s)

    def _throttled(self, device: float, room_bytes: float, time_s: float) -> bool:
        """Continue above the point at which the kernel slows writers down."""
        if self.waits_from_s is None:
            self.waits_from_s = self.now_s
        if room_bytes < PAGE_BYTES:
            step_s = min(time_s, self.left_bytes / device)
            return self._advance(step_s, step_s * device, 0.0)
        depth = (self.at.setpoint_bytes - self.held_bytes) / room_bytes
        constant_s = room_bytes / device
        step_s = min(time_s, constant_s * solve_constants(self.left_bytes / room_bytes, depth))
        rise_bytes = -room_bytes * depth * math.expm1(-step_s / constant_s)
        return self._advance(step_s, step_s * device + rise_bytes, rise_bytes)

    def _advance(self, time_s: float, arrived_bytes: float, rise_bytes: float) -> bool:
        self.now_s += time_s
        self.left_bytes -= arrived_bytes
        self.held_bytes += rise_bytes
        return self.left_bytes <= 1.0  # rounding may leave the last byte
