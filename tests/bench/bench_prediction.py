"""How far the predicted times are from measured ones, over recorded grids of the lab.

The model is fitted to the present runs of each grid alone, and told the memory that each trial
began with. Beside it stands the noise: how far the present runs of one grid are apart. The second
table predicts one grid from another's present runs: other memory, another burst, or both. Needs no
root: `python -m tests.bench.bench_prediction`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from statistics import median, quantiles

from contracts.units import counted
from sysctl.prediction.fit import fit
from sysctl.prediction.model import Model, Prediction
from sysctl.results import PRESENT, Observation, Results
from tests.bench.figures import print_table
from tests.bench.grids import NAMES, candidates, invalid_count, present_only, recorded, title

MEDIAN_GOAL_PERCENT = 5
NINETIETH_GOAL_PERCENT = 12


def errors_percent(
    results: Results,
    model: Model,
    predicted: Callable[[Prediction], float],
    measured: Callable[[Observation], float | None],
) -> list[float]:
    """Absolute errors, in % of what was measured, of every candidate that was so measured."""
    errors = []
    for trial in candidates(results):
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


def return_errors(results: Results, model: Model) -> list[float]:
    """Of the time to return."""
    return errors_percent(results, model, lambda p: p.return_s, lambda o: o.return_s)


def cells(errors: Sequence[float]) -> tuple[str, ...]:
    """Median, 90th percentile and largest."""
    ninetieth = quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else errors[0]
    return f"{median(errors):.1f}", f"{ninetieth:.1f}", f"{max(errors):.1f}"


def row(name: str, results: Results, model: Model) -> tuple[str, ...]:
    """A grid: its size, the errors of return, and the medians of durable and peak."""
    durable = errors_percent(results, model, lambda p: p.durable_s, lambda o: o.durable_s)
    peak = errors_percent(
        results, model, lambda p: p.peak_dirty_bytes, lambda o: o.peak_dirty_bytes
    )
    returns = return_errors(results, model)
    return (name, str(len(returns)), *cells(returns), cells(durable)[0], cells(peak)[0])


def noise_percent(results: Results) -> float:
    """How far the slowest present run is from the fastest."""
    times_s = [t.valid.return_s for t in results.of_role(PRESENT) if t.valid]
    return (max(times_s) / min(times_s) - 1) * 100


def main() -> None:
    """Each grid from its own present runs, then each from the others'."""
    grids = {name: recorded(name) for name in NAMES}
    models = {name: fit(present_only(results)) for name, results in grids.items()}
    header = ("grid", "settings", "return: median, %", "90th, %", "largest, %")
    header = (*header, "durable: median, %", "peak: median, %")
    own = [row(title(grids[name]), grids[name], models[name]) for name in NAMES]
    print("Absolute errors of the prediction, each grid from its own present runs\n")
    print_table(header, own)
    for name in NAMES:
        print(
            f"- {title(grids[name])}: present runs up to {noise_percent(grids[name]):.1f} % apart, "
            f"{counted(invalid_count(grids[name]), 'trial')} left out: others wrote meanwhile"
        )
    every = [error for name in NAMES for error in return_errors(grids[name], models[name])]
    middle, ninetieth, _ = cells(every)
    print_goal("median", float(middle), MEDIAN_GOAL_PERCENT)
    print_goal("90th percentile", float(ninetieth), NINETIETH_GOAL_PERCENT)
    if len(NAMES) > 1:
        print_others(grids, models, header)


def print_others(
    grids: Mapping[str, Results], models: Mapping[str, Model], header: Sequence[str]
) -> None:
    """Each grid from the present runs of each other."""
    print("\nThe same from the present runs of another grid: another memory, another burst\n")
    others = [
        row(f"{title(grids[other])} from {title(grids[name])}", grids[other], models[name])
        for name, other in permutations(NAMES, 2)
    ]
    print_table(header, others)


def print_goal(what: str, percent: float, allowed: float) -> None:
    """Whether the time to return of all grids together is as near as wanted."""
    verdict = "met" if percent <= allowed else "missed"
    print(f"- all grids, {what} of the return's error ≤ {allowed} %: {percent:.1f} %, {verdict}")


if __name__ == "__main__":
    main()
