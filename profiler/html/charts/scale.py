# SPDX-License-Identifier: Apache-2.0
"""From values to positions, and the round values at which an axis has ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contracts.shared.units import format_count

_STEPS = (1, 2, 5, 10)
#: Below it floating-point numbers lose their precision.
_LEAST_STEP = 1e-12
_UNIT = 1024
#: Steps of a time axis in s, from which on minutes are shown.
_TIME_STEPS = (15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
_MINUTES_FROM_S = 180


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` on positions from `start` to `end`; others are clamped."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value."""
        low, high, value = map(self._moved, (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.0
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def _moved(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.is_log else value


@dataclass(frozen=True)
class Ticks:
    """The values of an axis with their texts; `top` is at or above the largest value."""

    values: tuple[float, ...]
    texts: tuple[str, ...]
    top: float


def round_step(span: float, count: int) -> float:
    """Return 1, 2 or 5 times a power of ten: at most about `count` of them make the span."""
    least = max(span / max(1, count), _LEAST_STEP)
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in _STEPS if step * power >= least * 0.999)


def number_ticks(high: float, count: int, show: Callable[[float], str]) -> Ticks:
    """Return ticks from 0 to at least `high`, with the texts that `show` makes."""
    step = round_step(high or 1.0, count)
    return _up_to(high, step, show)


def size_ticks(high_bytes: float, count: int, per: str = "") -> Ticks:
    """Return ticks in round numbers of B, KiB, MiB, …; `per` follows the unit, as in `/s`."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    at = min(len(units) - 1, max(0, int(math.log(max(high_bytes, 1), _UNIT))))
    unit = float(_UNIT**at)
    step = round_step(high_bytes / unit or 1.0, count)
    if step * unit < 1:
        step = 1 / unit
    return _up_to(high_bytes, step * unit, lambda value: f"{value / unit:g} {units[at]}{per}")


def share_ticks(high: float, count: int) -> Ticks:
    """Return ticks in percent."""
    return number_ticks(high, count, lambda value: f"{100 * value:g}%")


def seconds_ticks(high_s: float, count: int) -> Ticks:
    """Return ticks of a duration, which is not a moment of a run."""
    return number_ticks(high_s, count, lambda value: f"{value:g} s" if value else "0")


def count_ticks(high: float, count: int) -> Ticks:
    """Return ticks in whole numbers."""
    step = max(1.0, round_step(high or 1.0, count))
    return _up_to(high, step, lambda value: format_count(round(value)))


def moment_ticks(high_s: float, count: int) -> Ticks:
    """Return ticks of a run's time: seconds, or minutes and seconds; the axis ends at `high_s`."""
    step = round_step(high_s or 1.0, count)
    if high_s > _MINUTES_FROM_S:
        wide = [each for each in _TIME_STEPS if high_s / each <= count]
        step = wide[0] if wide else round_step(high_s, count)
    values = [step * at for at in range(int(high_s / step + 1e-9) + 1)]
    return Ticks(tuple(values), tuple(moment_text(each, high_s) for each in values), high_s)


def moment_text(moment_s: float, whole_s: float) -> str:
    """Return `12 s`, or `3:30` where the whole run takes minutes; page.js has the same."""
    if whole_s <= _MINUTES_FROM_S:
        return f"{moment_s:g} s" if moment_s else "0 s"
    minutes, seconds = divmod(round(moment_s), 60)
    return f"{minutes}:{seconds:02}"


def power_ticks(high: float) -> Ticks:
    """Return the powers of ten from 1 to at least `high`."""
    powers = max(1, math.ceil(math.log10(max(high, 1)) - 1e-9))
    step = max(1, powers // 4)
    values = [10.0**power for power in range(0, powers + 1, step)]
    texts = tuple(format_count(round(value)) for value in values)
    return Ticks(tuple(values), texts, 10.0**powers)


def spread_out(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return the positions moved apart to at least `gap`, in their order, between the two ends."""
    order = sorted(range(len(positions)), key=lambda at: positions[at])
    placed = [min(high, max(low, positions[at])) for at in order]
    for at in range(1, len(placed)):
        placed[at] = max(placed[at], placed[at - 1] + gap)
    for at in reversed(range(len(placed))):
        limit = high if at == len(placed) - 1 else placed[at + 1] - gap
        placed[at] = min(placed[at], limit)
    back = dict(zip(order, placed))
    return [back[at] for at in range(len(positions))]


def _up_to(high: float, step: float, show: Callable[[float], str]) -> Ticks:
    last = max(1, math.ceil(high / step - 1e-9))
    values = tuple(step * at for at in range(last + 1))
    return Ticks(values, tuple("0" if not value else show(value) for value in values), values[-1])
