# SPDX-License-Identifier: Apache-2.0
"""Compare predicted times with measured ones, out of sample.

The model is fitted only to the runs of the current settings in each results file. It does not know
the memory or the times of the trials that judge it. A setting's measured time is the median of its
runs. The goals are for settings under which writers waited for 2 % of their time or more. The
others take as long as their source and show nothing of the throttling; they have their own column.

`python -m tests.bench.bench_prediction` judges the recorded grids. It needs no root.
`python -m tests.bench.bench_prediction FILE…` judges the results of real sweeps and demos as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from statistics import median, quantiles

from contracts.shared.errors import UsageError
from contracts.shared.units import counted
from sysctl.evidence.comparison import NEGLIGIBLE_SHARE
from sysctl.evidence.prediction import Model, Prediction, fit
from sysctl.evidence.results import Observation, Results
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from tests.bench.figures import print_table
from tests.bench.grids import all_files, comparable, invalid_count, present_only, read, title

MEDIAN_GOAL_PERCENT = 5
NINETIETH_GOAL_PERCENT = 12
HEADER = (
    "results",
    "settings",
    "throttled",
    "return: median, %",
    "90th, %",
    "worst, %",
    "unthrottled",
    "return: median, %",
    "worst, %",
    "durable of",
    "median, %",
    "peak: median, %",
)


@dataclass(frozen=True)
class Measured:
    """A setting and the medians of its valid runs. Times in s; `durable_s` None: not measured."""

    setting: Setting
    return_s: float
    durable_s: float | None
    peak_dirty_bytes: float
    burst_bytes: int


def measured(results: Results, *, throttled: bool) -> list[Measured]:
    """Return the settings under which writers waited, or did not, without the current ones.

    They differ from the current settings only in sysctls, since the model knows nothing else.
    """
    runs = Runs.of(results)
    present = runs.baseline.setting
    return [
        _measured(setting, seen)
        for setting, seen in runs.valid_by_setting.items()
        if setting != present and replace(setting, sysctls=present.sysctls) == present
        if (median(run.stall_share for run in seen) >= NEGLIGIBLE_SHARE) is throttled
    ]


def _measured(setting: Setting, runs: Sequence[Observation]) -> Measured:
    durable = [run.durable_s for run in runs if run.durable_s is not None]
    return Measured(
        setting,
        median(run.return_s for run in runs),
        median(durable) if durable else None,
        median(run.peak_dirty_bytes for run in runs),
        runs[0].bytes,
    )


@dataclass(frozen=True)
class Errors:
    """Absolute errors in % of the measured values, one for each setting measured so."""

    returned: tuple[float, ...]
    durable: tuple[float, ...]
    peak: tuple[float, ...]


def errors_of(
    settings: Sequence[Measured], model: Model, memory_bytes: int | None = None
) -> Errors:
    """Return the errors of a model; give `memory_bytes` if it was fitted with other memory."""
    told = [
        model.predict(
            each.setting.values, burst_bytes=each.burst_bytes, dirtyable_bytes=memory_bytes
        )
        for each in settings
    ]

    def errors(
        predicted: Callable[[Prediction], float], true: Callable[[Measured], float | None]
    ) -> tuple[float, ...]:
        pairs = [(predicted(p), true(m)) for p, m in zip(told, settings)]
        return tuple(abs(told / seen - 1) * 100 for told, seen in pairs if seen)

    return Errors(
        errors(lambda p: p.return_s, lambda m: m.return_s),
        errors(lambda p: p.durable_s, lambda m: m.durable_s),
        errors(lambda p: p.peak_dirty_bytes, lambda m: m.peak_dirty_bytes),
    )


def cells(errors: Sequence[float]) -> tuple[str, ...]:
    """Return median, 90th percentile and largest; dashes for nothing."""
    if not errors:
        return "–", "–", "–"
    ninetieth = quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else errors[0]
    return f"{median(errors):.1f}", f"{ninetieth:.1f}", f"{max(errors):.1f}"


def row(name: str, results: Results, errors: Errors, others: Errors) -> tuple[str, ...]:
    """Return the cells of a results file: throttled settings, then the others."""
    return (
        name,
        str(len({trial.setting for trial in results.trials if trial.valid})),
        str(len(errors.returned)),
        *cells(errors.returned),
        str(len(others.returned)),
        cells(others.returned)[0],
        cells(others.returned)[2],
        str(len(errors.durable)),
        cells(errors.durable)[0],
        cells(errors.peak)[0],
    )


def noise_percent(results: Results) -> float:
    """Return how far the slowest run of the current settings is from the fastest."""
    times_s = [run.return_s for run in Runs.of(results).valid_present]
    return (max(times_s) / min(times_s) - 1) * 100


def print_errors(what: str, studies: Mapping[str, Results]) -> None:
    """Print the errors of each, predicted from its runs of the current settings, and of all."""
    rows: list[tuple[str, ...]] = []
    together: list[float] = []
    for name, results in studies.items():
        try:
            model = fit(present_only(results))
        except UsageError as error:
            print(f"- {name} cannot be predicted: {error}")
            continue
        errors = errors_of(measured(results, throttled=True), model)
        others = errors_of(measured(results, throttled=False), model)
        rows.append(row(name, results, errors, others))
        together += errors.returned
        print(
            f"- {name}: present runs up to {noise_percent(results):.1f} % apart, "
            f"{counted(invalid_count(results), 'trial')} invalid"
        )
    if not rows:
        return
    print(f"\nAbsolute errors of {what}\n")
    print_table(HEADER, rows)
    print_goals("all of these together", together)


def print_goals(what: str, errors: Sequence[float]) -> None:
    """Print the errors of the time to return, and whether they meet the goals."""
    if not errors:
        return
    middle, ninetieth, worst = map(float, cells(errors))
    print(
        f"\n{what}, {counted(len(errors), 'throttled setting')}: median {middle:.1f} % (goal "
        f"{MEDIAN_GOAL_PERCENT} %: {_verdict(middle <= MEDIAN_GOAL_PERCENT)}), 90th percentile "
        f"{ninetieth:.1f} % (goal {NINETIETH_GOAL_PERCENT} %: "
        f"{_verdict(ninetieth <= NINETIETH_GOAL_PERCENT)}), worst {worst:.1f} %\n"
    )


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def print_others(grids: Mapping[str, Results]) -> None:
    """Print each grid's errors, predicted from another of the same source (`predict --memory`)."""
    errors: list[float] = []
    for one, other in permutations(grids, 2):
        known, asked = grids[one], grids[other]
        if _source(known) != _source(asked):
            continue
        seen = Runs.of(asked).valid_present
        memory_bytes = round(median(run.dirtyable_bytes for run in seen))
        settings = measured(asked, throttled=True)
        errors += errors_of(settings, fit(present_only(known)), memory_bytes).returned
    print_goals("each grid from a different grid, with other memory, another burst or both", errors)


def _source(results: Results) -> tuple[object, ...]:
    lab, shared = results.space.get("lab", {}), results.circumstances.node_class
    rates = (lab.get("connection_bytes_per_s"), lab.get("connections"))
    return (*rates, shared.client, shared.fstype)


def main() -> None:
    """Judge the recorded grids, and the files that were named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    arguments = parser.parse_args()
    grids = {title(results): results for results in map(comparable, map(read, all_files()))}
    print_errors("recorded grids", grids)
    print_others(grids)
    print_errors("the files that were named", {str(each): read(each) for each in arguments.files})


if __name__ == "__main__":
    main()
