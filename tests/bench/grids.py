"""The recorded grids that the benchmarks replay (`record_grid.py` made them)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

from contracts.units import format_size
from sysctl.protocol import MAX_MEMORY_CHANGE, invalid_reason
from sysctl.results import CANDIDATE, PRESENT, Results, Trial, load

FOLDER = Path(__file__).parent / "data"
#: By the lab's memory in MiB and the number of objects of 48 MiB. More are recorded by
#: `record_grid.py` (`--connection-rate 25MB`, so that the host's CPUs do not decide the source's
#: rate) as `data/grid-MEMORY-OBJECTS.json`.
NAMES = ("4096-40", "4096-24", "2560-40", "2560-24")


def recorded(name: str) -> Results:
    """One of `NAMES`; trials during which others wrote too much have a `problem`.

    That memory moves from trial to trial is none here, for a prediction that is told each trial's.
    """
    results = load(FOLDER / f"grid-{name}.json")
    return replace(results, trials=[_judged(trial) for trial in results.trials])


def _judged(trial: Trial) -> Trial:
    if not trial.valid:
        return trial
    return replace(trial, problem=invalid_reason(trial.valid, trial.setting, ()))


def comparable(results: Results) -> Results:
    """The same; trials whose memory is not that of the grid, which is its median, have a `problem`.

    For a search, which compares the trials' times with each other: as in a sweep.
    """
    seen = [trial.observation.dirtyable_bytes for trial in results.trials if trial.observation]
    usual = median(seen) if seen else 0
    return replace(results, trials=[_of_memory(trial, usual) for trial in results.trials])


def _of_memory(trial: Trial, usual_bytes: float) -> Trial:
    seen = trial.valid
    if not seen or abs(seen.dirtyable_bytes - usual_bytes) <= MAX_MEMORY_CHANGE * usual_bytes:
        return trial
    moved = f"{format_size(seen.dirtyable_bytes)} could be dirty in place of"
    return replace(trial, problem=f"{moved} {format_size(usual_bytes)}")


def invalid_count(results: Results) -> int:
    """How many trials do not count."""
    return sum(not trial.valid for trial in results.trials)


def title(results: Results) -> str:
    """`1.88 GiB, 4.00 GiB dirtyable`."""
    gib = 2**30
    return (
        f"{results.context['bytes'] / gib:.2f} GiB, "
        f"{results.context['dirtyable_bytes'] / gib:.2f} GiB dirtyable"
    )


def candidates(results: Results) -> list[Trial]:
    """Every valid candidate."""
    return [trial for trial in results.of_role(CANDIDATE) if trial.valid]


def present_only(results: Results) -> Results:
    """The same results as if the sweep had been stopped after its present runs."""
    return Results(results.context, {}, [], results.of_role(PRESENT))
