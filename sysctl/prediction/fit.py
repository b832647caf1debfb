"""The model from the pulls under the present settings: their courses and their times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from contracts.errors import UsageError
from sysctl.prediction.model import Model
from sysctl.prediction.simulation import Burst, simulate
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
    device_bytes_per_s = _device_bytes_per_s(runs)
    workers = int(results.context.get("workers") or 1)
    bursts = [_burst(run, workers) for run in runs]
    parts = [_rate_limit_part(run, each, device_bytes_per_s) for run, each in zip(runs, bursts)]
    return Model(
        present=results.of_role(PRESENT)[0].setting.values,
        burst=Burst(
            size_bytes=runs[0].bytes,
            start_s=statistics.median(burst.start_s for burst in bursts),
            source_bytes_per_s=statistics.median(b.source_bytes_per_s for b in bursts),
            flushed_bytes_per_s=statistics.median(b.flushed_bytes_per_s for b in bursts),
            tail_bytes=bursts[0].tail_bytes,
            writers=bursts[0].writers,
            rate_limit_part=statistics.median(parts),
        ),
        dirtyable_bytes=round(statistics.median(run.dirtyable_bytes for run in runs)),
        device_bytes_per_s=device_bytes_per_s,
        seen_bytes=max(min(run.peak_dirty_bytes, run.thresholds.freerun_bytes) for run in runs),
    )


def _burst(run: Observation, workers: int) -> Burst:
    """The burst that a run was, as far as waits for the device do not decide."""
    writers = max(1, min(workers, run.objects))
    rate, flushed, start_s = _source(run)
    return Burst(
        size_bytes=run.bytes,
        start_s=start_s,
        source_bytes_per_s=rate,
        flushed_bytes_per_s=flushed,
        # Each writer is anywhere in its last object when the first of them has nothing to do.
        tail_bytes=(writers - 1) / 2 * run.bytes / max(1, run.objects),
        writers=writers,
        rate_limit_part=1 / writers,
    )


def _rate_limit_part(run: Observation, burst: Burst, device_bytes_per_s: float) -> float:
    """What a writer's rate limit was at first, by which the simulated run returns as it did.

    In balance the writers share the device's rate; at most each may write as fast as it.
    """

    def miss_s(part: float) -> float:
        begun = replace(burst, rate_limit_part=part)
        return abs(simulate(begun, run.thresholds, device_bytes_per_s).return_s - run.return_s)

    least = 1 / burst.writers
    return min((least + (1 - least) * step / 10 for step in range(11)), key=miss_s)


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
