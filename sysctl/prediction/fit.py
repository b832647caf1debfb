"""The model from the pulls under the present settings: their courses and their times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from contracts.errors import UsageError
from sysctl.prediction.model import Model
from sysctl.results import PRESENT, Observation, Results, TracePoint

#: A rate is taken from at least so many points of a course.
_MIN_POINTS = 3
_MIN_WRITTEN_POINTS = 10
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
        tail_bytes=_tail_bytes(results, runs[0]),
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
    """How fast the device takes data, best told by a run that waited until it had taken all."""
    synced = [rate for run in runs if (rate := _synced_rate(run))]
    written = [rate for run in runs if (rate := _written_rate(run))]
    if not synced and not written:
        raise UsageError(
            "the runs of the present settings do not show how fast the device writes",
            "sweep again: the first run waits until all is on the device",
        )
    return statistics.median(synced or written)


def _synced_rate(run: Observation) -> float | None:
    """From when it began to write until all was on it; None when nobody waited for that.

    It never rests meanwhile: write-back goes on above the background threshold, and the wait for
    the device begins at the return.
    """
    if run.durable_s is None:
        return None
    first = run.trace[0].held_bytes if run.trace else 0
    background_bytes = run.thresholds.background_bytes
    flushed_s = (p.time_s for p in run.trace if p.held_bytes - first > background_bytes)
    began_s = min(next(flushed_s, run.return_s), run.return_s)
    return run.bytes / (run.durable_s - began_s) if run.durable_s > began_s else None


def _written_rate(run: Observation) -> float | None:
    """Its rate while writers had to wait for it; None when they did not, or not long.

    With the file system's own blocks: a few per cent more than the data.
    """
    points = [p for p in run.trace if p.held_bytes > run.thresholds.freerun_bytes]
    if len(points) < _MIN_WRITTEN_POINTS:
        return None
    rate, _ = _line([p.time_s for p in points], [p.written_bytes for p in points])
    return rate if rate > 0 else None


def _tail_bytes(results: Results, run: Observation) -> float:
    """What is left on average when the first of the workers has nothing more to do.

    Each is then anywhere in its last object: all of them but one lose half an object's time.
    """
    workers = min(int(results.context.get("workers") or 1), run.objects)
    return (workers - 1) / 2 * run.bytes / max(1, run.objects)
