# SPDX-License-Identifier: Apache-2.0
"""Prediction of pulls under settings, with memory or of a size that were not measured.

A pull arrives at the source's rate S. The device writes at its rate W as soon as the background
threshold is reached. Above freerun F the kernel throttles writers: to 2 W at F, to W at the set
point P (`dirty_freerun_ceiling()` and `wb_position_ratio()` in mm/page-writeback.c, as of Linux
6.18). If the rate falls linearly between the two, dirty bytes approach P exponentially with the
time constant (P - F) / W, and t seconds after F

    W t + (P - F) (1 - exp(-W t / (P - F)))

have arrived. `docs/explanation/prediction.md` has the measured errors.
"""

from __future__ import annotations

import enum
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contracts.shared.errors import UsageError
from contracts.shared.units import format_rate
from sysctl.evidence.comparison import NEGLIGIBLE_SHARE
from sysctl.evidence.results import PRESENT, PRICE, Observation, TracePoint
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.vm import BY_NAME, DIRTY_PAIR
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds, effective_thresholds, flush_age_s

#: Sizes that there are: an x86-64 kernel with four-level page tables addresses at most 64 TiB, and
#: the largest EBS volume has as much; a burst may go to several.
MEMORY_BYTES = (2**20, 2**46)
BURST_BYTES = (1, 2**50)
#: A pull returns in time if it takes at most this share longer than without waits.
IN_TIME = 0.02
#: Memory or a burst that differs from the measured one by more than this factor is extrapolated.
FAR = 2.0
#: The source's rate is the slope of a trace with at least this many points over this many seconds:
#: points are at least 0.05 s apart, and data arrives in bursts of up to that length.
_FEWEST_POINTS, _SHORTEST_S = 3, 0.1
#: While connections start, the rate is not measured: until this part of the burst has arrived, but
#: at most this part of what arrived before writers could be throttled.
_START_PART, _FREE_START_PART = 0.02, 0.10
#: The range of rates of real sources and devices; another rate is a sign of a damaged file.
_SLOWEST_BYTES_PER_S, _FASTEST_BYTES_PER_S = 1e3, 1e12
#: Each step doubles the number of correct digits.
_NEWTON_STEPS = 12
_HINT = "run the sweep again, or continue it with --resume"


class Beyond(enum.Enum):
    """The respect in which a prediction goes beyond the measured runs."""

    MEMORY = enum.auto()
    BURST = enum.auto()
    PEAK = enum.auto()
    THRESHOLD = enum.auto()


@dataclass(frozen=True)
class Extrapolation:
    """Why a prediction is less certain than the measured errors.

    For memory or a burst, `amount` is its ratio to the measured one; for a peak, the bytes up to
    which the source was measured without waits; None for a dirty threshold above all memory.
    """

    beyond: Beyond
    amount: float | None = None


@dataclass(frozen=True)
class Prediction:
    """The predicted pull. Times are in s; `peak_dirty_bytes` are dirty or under write-back."""

    return_s: float
    durable_s: float
    peak_dirty_bytes: int
    extrapolates: tuple[Extrapolation, ...] = ()


@dataclass(frozen=True)
class Model:
    """A pull of `burst_bytes` with `dirtyable_bytes` of memory, fitted to the runs of a sweep.

    `source_bytes_per_s` is its rate while writers do not wait, `device_bytes_per_s` the rate of the
    device. `seen_bytes` is the most that was held without waits. `present` are the sysctls in
    force, for those that a setting does not name.
    """

    present: Mapping[str, int]
    burst_bytes: int
    dirtyable_bytes: int
    source_bytes_per_s: float
    device_bytes_per_s: float
    seen_bytes: int

    def predict(
        self,
        values: Mapping[str, int],
        *,
        burst_bytes: int | None = None,
        dirtyable_bytes: int | None = None,
    ) -> Prediction:
        """Return the prediction for sysctl `values`, also with another size or memory."""
        size = self.burst_bytes if burst_bytes is None else burst_bytes
        memory = self.dirtyable_bytes if dirtyable_bytes is None else dirtyable_bytes
        complete = replace_values(self.present, values)
        asked = effective_thresholds(complete, memory)
        # Not more than all memory can be dirty, even with a larger threshold in bytes.
        at = Thresholds(min(asked.background_bytes, memory), min(asked.dirty_bytes, memory))
        source, device = self.source_bytes_per_s, self.device_bytes_per_s
        begins_s = write_back_begins_s(at, complete, size, source)
        unthrottled_s = size / source
        return_s = time_to_return_s(size, at, begins_s, source, device)
        unthrottled_peak = max(begins_s * source, size - (unthrottled_s - begins_s) * device)
        peak_bytes = round(min(unthrottled_peak, _throttled_peak_bytes(at)))
        beyond = list(self._beyond(size, memory, peak_bytes))
        if asked.dirty_bytes > memory:
            beyond.append(Extrapolation(Beyond.THRESHOLD))
        return Prediction(
            return_s=return_s,
            durable_s=max(return_s, begins_s + size / device),
            peak_dirty_bytes=peak_bytes,
            extrapolates=tuple(beyond),
        )

    def unthrottled_s(self) -> float:
        """Return how long the pull takes (s) if writers do not wait."""
        return self.burst_bytes / self.source_bytes_per_s

    def rate_needed_bytes_per_s(self) -> float | None:
        """Return the lowest device rate (bytes/s) with which the pull returns in time.

        The memory stays. None if the current device is fast enough.
        """
        memory, device = self.dirtyable_bytes, self.device_bytes_per_s
        if self._is_in_time(memory, device):
            return None
        return _least(lambda rate: self._is_in_time(memory, rate), device, self.source_bytes_per_s)

    def memory_needed_bytes(self) -> float | None:
        """Return the least dirtyable memory (bytes) with which the pull returns in time.

        The device stays. None if the current memory is enough.
        """
        device = self.device_bytes_per_s
        if self._is_in_time(self.dirtyable_bytes, device):
            return None
        most = 2.0 * self.burst_bytes  # freerun is then the burst, even with a background of 0
        return _least(lambda size: self._is_in_time(size, device), self.dirtyable_bytes, most)

    def _is_in_time(self, memory_bytes: float, device_bytes_per_s: float) -> bool:
        """Whether some thresholds let the pull return in time; the dirty one is all memory.

        Both extremes of the background threshold are tried, 0 and the dirty threshold: the device
        begins at once, or no writer waits before all memory is dirty.
        """
        size, source = self.burst_bytes, self.source_bytes_per_s
        memory = round(memory_bytes)
        best_s = min(
            time_to_return_s(
                size,
                at,
                write_back_begins_s(at, self.present, size, source),
                source,
                device_bytes_per_s,
            )
            for at in (Thresholds(0, memory), Thresholds(memory, memory))
        )
        return best_s <= self.unthrottled_s() * (1 + IN_TIME)

    def _beyond(
        self, size_bytes: int, memory_bytes: int, peak_bytes: int
    ) -> Iterator[Extrapolation]:
        for beyond, asked, measured in (
            (Beyond.MEMORY, memory_bytes, self.dirtyable_bytes),
            (Beyond.BURST, size_bytes, self.burst_bytes),
        ):
            ratio = asked / max(1, measured)
            if not 1 / FAR <= round(ratio, 1) <= FAR:
                yield Extrapolation(beyond, ratio)
        if peak_bytes > self.seen_bytes * FAR:
            yield Extrapolation(Beyond.PEAK, self.seen_bytes)


def fit(runs: Runs) -> Model:
    """Fit the model to the valid runs of the current settings.

    If any valid run, also a candidate's, stalled less than `NEGLIGIBLE_SHARE` of its writers' time,
    the source's rate is that of such runs: their time to return is the time without waits. Raises
    UsageError if there is no valid run, if the runs do not show the rate of the source or the
    device, or if they show impossible values.
    """
    present = runs.baseline.setting
    every = (t for t in runs.of_setting(present) if t.role in (PRESENT, PRICE))
    seen = [trial.valid for trial in every if trial.valid]
    if not runs.valid_present or not seen:
        raise UsageError(
            "the results have no valid run of the current settings, so nothing can be predicted",
            _HINT,
        )
    return _fitted(present.values, seen, _unthrottled_runs(runs, present))


def fit_pull(run: Observation, present: Mapping[str, int]) -> Model:
    """Fit the model to a single run, which had the sysctls `present`. Raises UsageError."""
    share = run.stall_share
    return _fitted(present, [run], [run] if share is not None and share < NEGLIGIBLE_SHARE else [])


def _fitted(
    present: Mapping[str, int], seen: Sequence[Observation], unthrottled: Sequence[Observation]
) -> Model:
    _check_present(present)
    for run in (*seen, *unthrottled):
        _check_run(run)
    source_bytes_per_s = _source_bytes_per_s(seen, unthrottled)
    return Model(
        present=present,
        burst_bytes=seen[0].bytes,
        dirtyable_bytes=round(statistics.median(run.dirtyable_bytes for run in seen)),
        source_bytes_per_s=source_bytes_per_s,
        device_bytes_per_s=_device_bytes_per_s(seen, present, source_bytes_per_s),
        seen_bytes=max(
            min(run.peak_dirty_bytes, run.thresholds.freerun_bytes) for run in (*seen, *unthrottled)
        ),
    )


def _check_present(values: Mapping[str, int]) -> None:
    """Raise UsageError unless the values are in range and include a dirty threshold."""
    wrong = [name for name, value in values.items() if value > BY_NAME[name].maximum]
    if wrong:
        raise UsageError(f"{wrong[0]} of the current settings is out of range", _HINT)
    if not any(values.get(name) for name in DIRTY_PAIR):
        raise UsageError("the current settings have no dirty threshold", _HINT)


def _check_run(run: Observation) -> None:
    """Raise UsageError if a run pulled nothing, or its host had no dirtyable memory."""
    needed = {
        "bytes pulled": run.bytes,
        "dirtyable memory": run.dirtyable_bytes,
        "dirty threshold": run.thresholds.dirty_bytes,
    }
    lacking = [what for what, size_bytes in needed.items() if size_bytes < 1]
    if lacking:
        raise UsageError(f"a run has no {' and no '.join(lacking)}", _HINT)


def _plausible(bytes_per_s: float, what: str) -> float:
    """Return the rate. Raises UsageError if it is impossibly low or high."""
    if not _SLOWEST_BYTES_PER_S <= bytes_per_s <= _FASTEST_BYTES_PER_S:
        raise UsageError(f"the runs show an impossible {what}: {format_rate(bytes_per_s)}", _HINT)
    return bytes_per_s


def _unthrottled_runs(runs: Runs, present: Setting) -> list[Observation]:
    """Return the valid runs with the current transfer settings in which writers hardly waited."""
    alike = (t.valid for t in runs.trials if t.setting.transfer == present.transfer)
    seen = ((run, run.stall_share) for run in alike if run)
    return [run for run, share in seen if share is not None and share < NEGLIGIBLE_SHARE]


def _source_bytes_per_s(runs: Sequence[Observation], unthrottled: Sequence[Observation]) -> float:
    rates = [run.bytes / run.return_s for run in unthrottled]
    rates = rates or [rate for run in runs if (rate := _free_rate(run))]
    if not rates:
        raise UsageError(
            "the runs do not show how fast the source is: in each of them writers were throttled "
            "too early",
            "sweep with --dirty-ratio 80: a run in which writers hardly wait shows the rate",
        )
    return _plausible(statistics.median(rates), "rate of the source")


def _free_rate(run: Observation) -> float | None:
    """Return the bytes/s that arrived before writers could be throttled; None if too few."""
    freerun_bytes = run.thresholds.freerun_bytes
    free = list(itertools.takewhile(lambda p: p.held_bytes <= freerun_bytes, run.trace))
    if not free:
        return None
    start_bytes = min(_START_PART * run.bytes, _FREE_START_PART * _arrived(run, free[-1]))
    points = [point for point in free if _arrived(run, point) > start_bytes]
    if len(points) < _FEWEST_POINTS:
        return None
    took_s = points[-1].time_s - points[0].time_s
    arrived = _arrived(run, points[-1]) - _arrived(run, points[0])
    return arrived / took_s if took_s >= _SHORTEST_S and arrived > 0 else None


def _arrived(run: Observation, point: TracePoint) -> float:
    """Return the bytes that the pull had written until then, to the device or not."""
    return point.held_bytes - run.trace[0].held_bytes + point.written_bytes


def _device_bytes_per_s(
    runs: Sequence[Observation], present: Mapping[str, int], source_bytes_per_s: float
) -> float:
    """Return the device's rate in the runs that waited until all data was durable.

    It is measured from when the device began to write. From then on the device is always busy: it
    writes while the background threshold is exceeded, and the sync begins at the return.
    """
    rates = []
    for run in runs:
        begins_s = write_back_begins_s(run.thresholds, present, run.bytes, source_bytes_per_s)
        if run.durable_s is not None and run.durable_s > begins_s:
            rates.append(run.bytes / (run.durable_s - begins_s))
    if not rates:
        raise UsageError(
            "the runs of the current settings do not show how fast the device writes",
            "run the sweep again: its first run waits until all data is durable",
        )
    return _plausible(statistics.median(rates), "rate of the device")


def write_back_begins_s(
    at: Thresholds, values: Mapping[str, int], size_bytes: int, source_bytes_per_s: float
) -> float:
    """Return when the device begins to write (s): at the background threshold, age or a sync."""
    by_size_s = min(at.background_bytes, size_bytes) / source_bytes_per_s
    return min(by_size_s, flush_age_s(values))


def time_to_return_s(
    size_bytes: int,
    at: Thresholds,
    begins_s: float,
    source_bytes_per_s: float,
    device_bytes_per_s: float,
) -> float:
    """Return the time to return (s) under thresholds, with a device that begins at `begins_s`.

    A source slower than twice the device is throttled only from where the kernel allows less.
    """
    unthrottled_s = size_bytes / source_bytes_per_s
    faster = min(1.0, source_bytes_per_s / device_bytes_per_s - 1)  # in units of the device's rate
    if faster <= 0:
        return unthrottled_s
    room_bytes = at.setpoint_bytes - at.freerun_bytes
    held_bytes = at.setpoint_bytes - room_bytes * faster  # when throttling begins
    slowed_s = held_bytes / source_bytes_per_s
    if slowed_s > begins_s:
        not_written_bytes = begins_s * device_bytes_per_s  # before the device began
        slowed_s = (held_bytes - not_written_bytes) / (source_bytes_per_s - device_bytes_per_s)
    left_bytes = size_bytes - slowed_s * source_bytes_per_s
    if left_bytes <= 0:
        return unthrottled_s
    if room_bytes < PAGE_BYTES:
        return slowed_s + left_bytes / device_bytes_per_s
    constants = solve_constants(left_bytes / room_bytes, faster)
    return max(unthrottled_s, slowed_s + constants * room_bytes / device_bytes_per_s)


def waiting_bytes(size_bytes: int, at: Thresholds) -> float:
    """Return the bytes that the device writes during throttling; the wait is proportional to them.

    It assumes a source that is much faster than the device.
    """
    room_bytes, left_bytes = at.setpoint_bytes - at.freerun_bytes, size_bytes - at.freerun_bytes
    if left_bytes <= 0 or room_bytes < PAGE_BYTES:
        return max(0.0, left_bytes)
    return solve_constants(left_bytes / room_bytes, 1.0) * room_bytes


def solve_constants(arrived: float, faster: float) -> float:
    """Solve t + faster · (1 - exp(-t)) = arrived for t, by Newton's method.

    The left side is concave, so after one step the values rise to the solution.
    """
    t = arrived
    for _ in range(_NEWTON_STEPS):
        rise = -math.expm1(-t)
        t -= (t + faster * rise - arrived) / (1 + faster * (1 - rise))
    return t


def _least(is_enough: Callable[[float], bool], low: float, high: float) -> float | None:
    """Return the least value from `low` to `high` that is enough, within 0.1 %; None if none is."""
    if not is_enough(high):
        return None
    while high - low > high / 1000:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _throttled_peak_bytes(at: Thresholds) -> float:
    """Return the peak of dirty bytes while writers are throttled.

    Writers exceed the set point before the kernel has slowed them, but never the limit: in the
    grids of November 2026 the median peak was halfway between the two.
    """
    return (at.setpoint_bytes + at.dirty_bytes) / 2
