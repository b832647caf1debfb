"""The model from the pulls under the present settings: their courses and their times."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from contracts.errors import UsageError
from contracts.units import format_rate
from sysctl.evidence import workers_of, writers_of
from sysctl.knobs.vm import BY_NAME, DIRTY_PAIR
from sysctl.prediction.model import Model
from sysctl.prediction.simulation import Burst, simulate
from sysctl.results import PRESENT, Observation, Results, TracePoint

#: What is told of writers that wait is told by at least so many points of a course.
_MIN_POINTS = 10
#: A rate is told by windows of so long.
_WINDOW_S = 0.4
#: The kernel's rate limit shows for so long after writers were first made to wait.
_ADAPTING_S = 5.0
#: What has arrived before that part of the burst is the start of its connections, not its rate; but
#: no more than that part of what arrived before writers could be made to wait.
_START_PART, _FREE_START_PART = 0.02, 0.10
#: Rates of sources and devices that there are: less or more is a damaged file.
_SLOWEST_BYTES_PER_S, _FASTEST_BYTES_PER_S = 1e3, 1e12
_HINT = "run the sweep again, or go on with --resume"


def fit(results: Results) -> Model:
    """Fit the model to the valid runs of the present settings.

    Raises UsageError when there is none, when they do not show how fast the device writes, or what
    no host can have shown.
    """
    runs = [trial.valid for trial in results.of_role(PRESENT) if trial.valid]
    if not runs:
        raise UsageError(
            "the results hold no valid run of the present settings, so nothing can be predicted",
            _HINT,
        )
    present = results.of_role(PRESENT)[0].setting.values
    _check_present(present)
    for run in runs:
        _check_run(run)
    bursts = [_burst(run, workers_of(results), writers_of(results, run)) for run in runs]
    device_bytes_per_s = _device_bytes_per_s(runs, bursts)
    parts = [_rate_limit_part(run, each, device_bytes_per_s) for run, each in zip(runs, bursts)]
    known = [part for part in parts[1:] or parts if part]  # the first is of a fresh volume
    return Model(
        present=present,
        burst=Burst(
            size_bytes=runs[0].bytes,
            start_s=statistics.median(burst.start_s for burst in bursts),
            source_bytes_per_s=statistics.median(b.source_bytes_per_s for b in bursts),
            flushed_bytes_per_s=statistics.median(b.flushed_bytes_per_s for b in bursts),
            tail_bytes=bursts[0].tail_bytes,
            writers=bursts[0].writers,
            rate_limit_part=statistics.median(known) if known else 1.0,
        ),
        dirtyable_bytes=round(statistics.median(run.dirtyable_bytes for run in runs)),
        device_bytes_per_s=device_bytes_per_s,
        seen_bytes=max(min(run.peak_dirty_bytes, run.thresholds.freerun_bytes) for run in runs),
    )


def _check_present(values: Mapping[str, int]) -> None:
    """Raise UsageError unless these can be in force, a dirty threshold among them."""
    wrong = [name for name, value in values.items() if value > BY_NAME[name].maximum]
    if wrong:
        raise UsageError(f"the present settings have a {wrong[0]} that is out of range", _HINT)
    if not any(values.get(name) for name in DIRTY_PAIR):
        raise UsageError("the present settings do not say which dirty threshold they have", _HINT)


def _check_run(run: Observation) -> None:
    """Raise UsageError where a run brought nothing, or its host had no memory to dirty."""
    needed = {
        "bytes that arrived": run.bytes,
        "memory that can be dirtied": run.dirtyable_bytes,
        "dirty threshold": run.thresholds.dirty_bytes,
    }
    lacking = [what for what, size_bytes in needed.items() if size_bytes < 1]
    if lacking:
        raise UsageError(f"a run of the present settings has no {' and no '.join(lacking)}", _HINT)


def _plausible(bytes_per_s: float, what: str) -> float:
    """The rate. Raises UsageError when nothing is so slow or so fast."""
    if not _SLOWEST_BYTES_PER_S <= bytes_per_s <= _FASTEST_BYTES_PER_S:
        raise UsageError(
            f"a run of the present settings shows {what} of {format_rate(bytes_per_s)}", _HINT
        )
    return bytes_per_s


def _burst(run: Observation, workers: int, writers: int) -> Burst:
    """The burst that a run was, as far as waits for the device do not decide."""
    last_objects = max(1, min(workers, run.objects))
    rate, flushed, start_s = _source(run)
    return Burst(
        size_bytes=run.bytes,
        start_s=min(start_s, run.return_s),
        source_bytes_per_s=_plausible(rate, "a source"),
        flushed_bytes_per_s=_plausible(flushed, "a source"),
        # Each worker is anywhere in its last object when the first of them has nothing to do.
        tail_bytes=(last_objects - 1) / 2 * run.bytes / max(1, run.objects),
        writers=writers,
        rate_limit_part=1 / writers,
    )


def _rate_limit_part(run: Observation, burst: Burst, device_bytes_per_s: float) -> float | None:
    """What a writer's rate limit was at first: that by which the simulation takes as long.

    From when writers could be made to wait, for `_ADAPTING_S`; None where they were not so long.
    In balance writers share the device's rate; at most each is let write as fast as it.
    """
    waiting = [p for p in run.trace if p.held_bytes > run.thresholds.freerun_bytes]
    soon = [point for point in waiting if point.time_s <= waiting[0].time_s + _ADAPTING_S]
    if len(soon) < _MIN_POINTS:
        return None
    begun, ended = _arrived(run, soon[0]), _arrived(run, soon[-1])
    took_s = soon[-1].time_s - soon[0].time_s

    def miss_s(part: float) -> float:
        ends = (
            replace(burst, size_bytes=b, tail_bytes=0.0, rate_limit_part=part)
            for b in (begun, ended)
        )
        first, last = (simulate(end, run.thresholds, device_bytes_per_s).return_s for end in ends)
        return abs(last - first - took_s)

    least = 1 / burst.writers
    return min((least + (1 - least) * step / 20 for step in range(21)), key=miss_s)


def _source(run: Observation) -> tuple[float, float, float]:
    """The source's rate before the device writes, the rate meanwhile, and the time before both.

    One rate for both where the device's part is too short to tell, or shows no loss.
    """
    free = _free_part(run)
    rate = _rate(run, free)
    if rate is None:
        waited = run.bytes / (run.return_s * max(0.01, 1 - run.stall_share))
        return waited, waited, 0.0
    split = len(_while_held(free, run.thresholds.background_bytes))
    first, second = _rate(run, free[:split]), _rate(run, free[max(0, split - 1) :])
    if first is None or second is None or second >= first:
        first = second = rate
    begun_s = free[0].time_s - _arrived(run, free[0]) / first
    return first, second, max(0.0, begun_s)


def _rate(run: Observation, points: Sequence[TracePoint]) -> float | None:
    """Bytes/s that arrived in that part of the course: the median of its windows.

    The median, as another program takes the CPUs now and then. None for less than two windows.
    """
    rates, end = [], 0
    for start, point in enumerate(points):
        while end < len(points) and points[end].time_s - point.time_s < _WINDOW_S:
            end += 1
        if end == len(points):
            break
        took_s = points[end].time_s - point.time_s
        rates.append((_arrived(run, points[end]) - _arrived(run, points[start])) / took_s)
    is_long = rates and points[-1].time_s - points[0].time_s >= 2 * _WINDOW_S
    return statistics.median(rates) if is_long and statistics.median(rates) > 0 else None


def _free_part(run: Observation) -> list[TracePoint]:
    """The course from when the burst has begun until writers could be made to wait."""
    points = _while_held(run.trace, run.thresholds.freerun_bytes)
    if not points:
        return []
    start_bytes = min(_START_PART * run.bytes, _FREE_START_PART * _arrived(run, points[-1]))
    return [point for point in points if _arrived(run, point) > start_bytes]


def _while_held(points: Sequence[TracePoint], most_bytes: int) -> list[TracePoint]:
    """The first points, as long as no more is held."""
    return list(itertools.takewhile(lambda point: point.held_bytes <= most_bytes, points))


def _arrived(run: Observation, point: TracePoint) -> float:
    """What the pull had written until then, on the device or not."""
    return point.held_bytes - run.trace[0].held_bytes + point.written_bytes


def _device_bytes_per_s(runs: Sequence[Observation], bursts: Sequence[Burst]) -> float:
    """How fast the device takes data, best told by a run that waited until it had taken all."""
    synced = [rate for run, burst in zip(runs, bursts) if (rate := _synced_rate(run, burst))]
    written = [rate for run in runs if (rate := _written_rate(run))]
    if not synced and not written:
        raise UsageError(
            "the runs of the present settings do not show how fast the device writes",
            "sweep again: the first run waits until all is on the device",
        )
    return _plausible(statistics.median(synced or written), "a device")


def _synced_rate(run: Observation, burst: Burst) -> float | None:
    """From when it began to write until all was on it; None when nobody waited for that.

    It never rests meanwhile: write-back goes on above the background threshold, and the wait for
    the device begins at the return.
    """
    if run.durable_s is None:
        return None
    began_s = burst.start_s + run.thresholds.background_bytes / burst.source_bytes_per_s
    took_s = run.durable_s - min(began_s, run.return_s)
    return run.bytes / took_s if took_s > 0 else None


def _written_rate(run: Observation) -> float | None:
    """Its rate while writers had to wait for it; None when they did not, or not long.

    With the file system's own blocks: a few per cent more than the data.
    """
    points = [p for p in run.trace if p.held_bytes > run.thresholds.freerun_bytes]
    if len(points) < _MIN_POINTS:
        return None
    written = points[-1].written_bytes - points[0].written_bytes
    took_s = points[-1].time_s - points[0].time_s
    return written / took_s if written > 0 and took_s > 0 else None
