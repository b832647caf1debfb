"""How far the predicted times are from measured ones, over recorded grids of the lab.

The model is fitted to the present runs of each grid alone, and told the memory that each trial
began with. Beside it stands the noise: how far the present runs of one grid are apart. Settings
under which writers waited are told apart, since only they put the throttling to the test. The
second table predicts one grid from another's present runs: other memory, another burst, or both.
Needs no root: `python -m tests.bench.bench_prediction`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from statistics import median, quantiles

from contracts.units import counted
from sysctl.evidence import NEGLIGIBLE_SHARE
from sysctl.prediction.fit import fit
from sysctl.prediction.model import Model, Prediction
from sysctl.results import PRESENT, Observation, Results, Trial
from tests.bench.figures import print_table
from tests.bench.grids import NAMES, candidates, invalid_count, present_only, recorded, title

MEDIAN_GOAL_PERCENT = 5
NINETIETH_GOAL_PERCENT = 12
HEADER = (
    "grid",
    "settings",
    "return: median, %",
    "90th, %",
    "largest, %",
    "throttled",
    "median, %",
    "90th, %",
    "durable of",
    "median, %",
    "peak: median, %",
)


def errors_percent(
    trials: Sequence[Trial],
    model: Model,
    predicted: Callable[[Prediction], float],
    measured: Callable[[Observation], float | None],
) -> list[float]:
    """Absolute errors, in % of what was measured, of every trial that was so measured."""
    errors = []
    for trial in trials:
        assert trial.valid
        true = measured(trial.valid)
        if true:
            prediction = model.predict(
                trial.setting.values,
                burst_bytes=trial.valid.bytes,
                dirtyable_bytes=trial.valid.dirtyable_bytes,
            )
            errors.append(abs(predicted(prediction) / true - 1) * 100)
    return errors


def return_errors(trials: Sequence[Trial], model: Model) -> list[float]:
    """Of the time to return."""
    return errors_percent(trials, model, lambda p: p.return_s, lambda o: o.return_s)


def throttled(trials: Sequence[Trial]) -> list[Trial]:
    """Those under which writers waited in dirty throttling."""
    return [
        trial for trial in trials if trial.valid and trial.valid.stall_share >= NEGLIGIBLE_SHARE
    ]


def cells(errors: Sequence[float]) -> tuple[str, ...]:
    """Median, 90th percentile and largest; dashes for nothing."""
    if not errors:
        return "–", "–", "–"
    ninetieth = quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else errors[0]
    return f"{median(errors):.1f}", f"{ninetieth:.1f}", f"{max(errors):.1f}"


def row(name: str, results: Results, model: Model) -> tuple[str, ...]:
    """A grid: its size, the errors of return, those of throttled settings, of durable and peak."""
    trials = candidates(results)
    waited = return_errors(throttled(trials), model)
    durable = errors_percent(trials, model, lambda p: p.durable_s, lambda o: o.durable_s)
    peak = errors_percent(trials, model, lambda p: p.peak_dirty_bytes, lambda o: o.peak_dirty_bytes)
    return (
        name,
        str(len(trials)),
        *cells(return_errors(trials, model)),
        str(len(waited)),
        *cells(waited)[:2],
        str(len(durable)),
        cells(durable)[0],
        cells(peak)[0],
    )


def noise_percent(results: Results) -> float:
    """How far the slowest present run is from the fastest."""
    times_s = [t.valid.return_s for t in results.of_role(PRESENT) if t.valid]
    return (max(times_s) / min(times_s) - 1) * 100


def main() -> None:
    """Each grid from its own present runs, then each from the others'."""
    grids = {name: recorded(name) for name in NAMES}
    models = {name: fit(present_only(results)) for name, results in grids.items()}
    print("Absolute errors of the prediction, each grid from its own present runs\n")
    print_table(HEADER, [row(title(grids[name]), grids[name], models[name]) for name in NAMES])
    for name in NAMES:
        print(
            f"- {title(grids[name])}: present runs up to {noise_percent(grids[name]):.1f} % apart, "
            f"{counted(invalid_count(grids[name]), 'trial')} left out: others wrote meanwhile"
        )
    every = [(candidates(grids[name]), models[name]) for name in NAMES]
    print_goals("all grids together", [return_errors(*each) for each in every])
    waited = [return_errors(throttled(trials), model) for trials, model in every]
    print_goals("their throttled settings", waited)
    print_others(grids, models)


def print_others(grids: Mapping[str, Results], models: Mapping[str, Model]) -> None:
    """Each grid from the present runs of each other."""
    pairs = list(permutations(NAMES, 2))
    print("\nThe same from the present runs of another grid: another memory, another burst\n")
    others = [
        row(f"{title(grids[other])} from {title(grids[name])}", grids[other], models[name])
        for name, other in pairs
    ]
    print_table(HEADER, others)
    errors = [return_errors(candidates(grids[other]), models[name]) for name, other in pairs]
    print_goals("all of these together", errors)


def print_goals(what: str, by_grid: Sequence[Sequence[float]]) -> None:
    """Whether the time to return is as near as wanted: of all grids together, and of how many."""
    together = [error for errors in by_grid for error in errors]
    for at, name, allowed in (
        (0, "median", MEDIAN_GOAL_PERCENT),
        (1, "90th percentile", NINETIETH_GOAL_PERCENT),
    ):
        percent = float(cells(together)[at])
        single = [float(cells(errors)[at]) <= allowed for errors in by_grid if errors]
        print(
            f"- {what}, {name} of the return's error ≤ {allowed} %: {percent:.1f} %, "
            f"{'met' if percent <= allowed else 'missed'}; by itself in {sum(single)} of "
            f"{len(single)}"
        )


if __name__ == "__main__":
    main()
