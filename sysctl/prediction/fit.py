"""The model from the pulls under the present settings: their courses and their times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from contracts.errors import UsageError
from sysctl.prediction.model import Model
from sysctl.results import PRESENT, Observation, Results, TracePoint

#: A rate is taken from at least so many points of a course.
_MIN_POINTS = 3
#: What has arrived before that part of the burst is the start of its connections, not its rate.
_START_PART = 0.02


def fit(results: Results) -> Model:
    """Fit the model to the valid runs of the present settings.

    Raises UsageError when there is none, or when they do not show how fast the device writes.
    """
    runs = [trial.valid for trial in results.of_role(PRESENT) if trial.valid]
    if not runs:
        raise UsageError(
            "the results hold no valid run of the present settings, so nothing can be predicted",
            "run the sweep again, or go on with --resume",
        )
    sources = [_source(run) for run in runs]
    return Model(
        present=results.of_role(PRESENT)[0].setting.values,
        burst_bytes=runs[0].bytes,
        dirtyable_bytes=round(statistics.median(run.dirtyable_bytes for run in runs)),
        source_bytes_per_s=statistics.median(rate for rate, _, _ in sources),
        flushed_bytes_per_s=statistics.median(rate for _, rate, _ in sources),
        device_bytes_per_s=_device_bytes_per_s(runs),
        start_s=statistics.median(start for _, _, start in sources),
        seen_bytes=max(min(run.peak_dirty_bytes, run.thresholds.freerun_bytes) for run in runs),
    )


def _source(run: Observation) -> tuple[float, float, float]:
    """The source's rate before the device writes, the rate meanwhile, and the time before both."""
    free = _until(run, run.thresholds.freerun_bytes)
    alone = _until(run, run.thresholds.background_bytes)
    if len(free) < _MIN_POINTS:
        rate = run.bytes / (run.return_s * max(0.01, 1 - run.stall_share))
        return rate, rate, 0.0
    if len(alone) < _MIN_POINTS:
        alone = free
    rate, start_s = _line([point.time_s for point in alone], _arrived(run, alone))
    both = free[len(alone) - 1 :]
    flushed = rate
    if len(both) >= _MIN_POINTS:
        flushed, _ = _line([point.time_s for point in both], _arrived(run, both))
    return rate, flushed, max(0.0, start_s)


def _until(run: Observation, held_bytes: int) -> list[TracePoint]:
    """The course from when the burst has begun until so much is held."""
    points: list[TracePoint] = []
    first = run.trace[0].held_bytes if run.trace else 0
    for point in run.trace:
        if point.held_bytes > held_bytes:
            break
        if point.held_bytes - first + point.written_bytes > _START_PART * run.bytes:
            points.append(point)
    return points


def _arrived(run: Observation, points: Sequence[TracePoint]) -> list[float]:
    first = run.trace[0].held_bytes
    return [point.held_bytes - first + point.written_bytes for point in points]


def _line(times_s: Sequence[float], amounts: Sequence[float]) -> tuple[float, float]:
    """Least squares: the slope, and the time at which the amount was 0."""
    centre_s, mean = statistics.mean(times_s), statistics.mean(amounts)
    spread = sum((time_s - centre_s) ** 2 for time_s in times_s)
    slope = sum((t - centre_s) * (a - mean) for t, a in zip(times_s, amounts)) / spread
    return slope, centre_s - mean / slope


def _device_bytes_per_s(runs: Sequence[Observation]) -> float:
    rates = [rate for run in runs for rate in (_written_rate(run), _synced_rate(run)) if rate]
    if not rates:
        raise UsageError(
            "the runs of the present settings do not show how fast the device writes",
            "sweep again: the first run waits until all is on the device",
        )
    return statistics.median(rates)


def _written_rate(run: Observation) -> float | None:
    """The device's rate while writers had to wait for it; None when they did not, or not long."""
    points = [p for p in run.trace if p.held_bytes > run.thresholds.freerun_bytes]
    if len(points) < 10:
        return None
    rate, _ = _line([p.time_s for p in points], [p.written_bytes for p in points])
    return rate if rate > 0 else None


def _synced_rate(run: Observation) -> float | None:
    """Its rate from the return until all was on it; None when nobody waited for that."""
    if run.durable_s is None or run.durable_s <= run.return_s or not run.trace:
        return None
    held = run.trace[-1].held_bytes - run.trace[0].held_bytes
    return held / (run.durable_s - run.return_s) if held > 0 else None
