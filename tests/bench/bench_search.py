"""How soon each search strategy finds a fast setting, by replaying fully recorded grids.

A strategy proposes, the grid answers with what was measured for that setting; nothing runs. What
counts is when a setting within 5 % of the grid's best has been tried, in trials and in minutes of
pulling (the time between pulls is the same for each strategy). The model's search is begun from
every two of a grid's present runs, and its worst counts; strategies that draw do so with several
seeds. Only trials with the grid's memory take part. Needs no root:
`python -m tests.bench.bench_search`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from contracts.units import counted
from sysctl.results import CANDIDATE, PRESENT, Results, Trial
from sysctl.search import Strategy
from sysctl.search.strategies import BAYES, GRID, MODEL, RANDOM, make_strategy
from sysctl.sweep import FLOOR_RUNS
from tests.bench.figures import print_table
from tests.bench.grids import NAMES, WIDEST, candidates, comparable, recorded, title

WITHIN = 0.05
SEEDS = range(20)
DRAWN = (BAYES, RANDOM)
MAX_TRIALS = 5
TIME_SHARE = 1 / 8


@dataclass(frozen=True)
class Replay:
    """One search: trials and seconds until a setting within 5 % was tried (None: never), all of it.

    `found_s` is the time of the pulls until then, that of the found one included.
    """

    found_after: int | None
    found_s: float
    trials: int
    total_s: float


def replay(strategy: Strategy, grid: Results, start: Sequence[Trial]) -> Replay:
    """Let the strategy search a recorded grid, of which it knows the `start` at first."""
    by_setting = {trial.setting: trial for trial in candidates(grid)}
    goal_s = min(_return_s(trial) for trial in by_setting.values()) * (1 + WITHIN)
    done: list[Trial] = list(start)
    found_after, found_s, total_s, trials = None, 0.0, 0.0, 0
    while len(by_setting) > trials and (setting := strategy.next_setting(done)) is not None:
        trial = by_setting[setting]
        done.append(trial)
        trials += 1
        total_s += _return_s(trial)
        if found_after is None and _return_s(trial) <= goal_s:
            found_after, found_s = trials, total_s
    return Replay(found_after, found_s, trials, total_s)


def _return_s(trial: Trial) -> float:
    assert trial.valid
    return trial.valid.return_s


def starts(grid: Results) -> list[tuple[Trial, ...]]:
    """What a sweep may know before its search: every choice of its present runs, in their order."""
    present = [trial for trial in grid.of_role(PRESENT) if trial.valid]
    return list(combinations(present, FLOOR_RUNS))


def replays(name: str, grid: Results) -> list[Replay]:
    """One for each start of the strategy that goes by present runs, one for each seed of others."""
    settings = tuple(trial.setting for trial in candidates(grid))
    every = starts(grid)
    begun = every if name == MODEL else every[:1]
    return [
        replay(make_strategy(name, settings, grid.context, seed), grid, start)
        for start in begun
        for seed in (SEEDS if name in DRAWN else SEEDS[:1])
    ]


def spent_s(done: Replay) -> float:
    """The time of the pulls until it was found; a search that never found one counts as a whole."""
    return done.total_s if done.found_after is None else done.found_s


def trials_until(done: Replay) -> int:
    """The same in trials."""
    return done.trials if done.found_after is None else done.found_after


def row(name: str, done: Sequence[Replay], grid_s: float) -> tuple[str, ...]:
    """Medians and, behind them, the worst."""
    found = [each for each in done if each.found_after is not None]
    times_s = [spent_s(each) for each in done]
    after = [trials_until(each) for each in done]
    return (
        name,
        f"{len(found)} of {len(done)}",
        f"{median(after):.0f} ({max(after)})",
        f"{median(times_s) / 60:.1f} ({max(times_s) / 60:.1f})",
        f"{median(times_s) / grid_s:.0%} ({max(times_s) / grid_s:.0%})",
        f"{median(each.trials for each in done):.0f}",
        f"{median(each.total_s for each in done) / 60:.1f}",
    )


def main() -> None:
    """Every strategy over every grid."""
    if importlib.util.find_spec("optuna") is None:
        sys.exit("the strategy bayes needs Optuna: run `tools/setup test bench`")
    grids = {name: comparable(recorded(name)) for name in NAMES}
    done = {
        grid: {name: replays(name, results) for name in (MODEL, BAYES, RANDOM, GRID)}
        for grid, results in grids.items()
    }
    print(
        f"In the median and, in brackets, at worst; {len(SEEDS)} seeds of {' and '.join(DRAWN)}\n"
    )
    header = (
        "grid and strategy",
        f"within {WITHIN:.0%}",
        "trials until then",
        "minutes until then",
    )
    header = (*header, "of the grid's time", "trials", "minutes")
    rows = [
        row(f"{title(grids[grid])}: {name}", each, total_s(grids[grid]))
        for grid, by_name in done.items()
        for name, each in by_name.items()
    ]
    print_table(header, rows)
    for grid, results in grids.items():
        print_grid(results)
        print_goals(done[grid], total_s(results) if grid == WIDEST else None)


def total_s(grid: Results) -> float:
    """What all pulls of the candidates took."""
    return sum(_return_s(trial) for trial in candidates(grid))


def print_grid(grid: Results) -> None:
    """How many settings it has, and how hard it is to find a fast one by chance."""
    times_s = [_return_s(trial) for trial in candidates(grid)]
    good = sum(time_s <= min(times_s) * (1 + WITHIN) for time_s in times_s)
    of = sum(trial.role == CANDIDATE for trial in grid.trials)
    print(f"{title(grid)}: {len(times_s)} of {of} settings comparable, {good} within {WITHIN:.0%}")


def print_goals(done: Mapping[str, Sequence[Replay]], grid_s: float | None) -> None:
    """Whether the model needs as little as wanted at worst, and no more than bayes.

    The share of the grid's time is wanted of a grid of `grid_s` that is large enough; else None.
    """
    model = done[MODEL]
    found = all(each.found_after is not None for each in model)
    most, longest_s = max(map(trials_until, model)), max(map(spent_s, model))
    begun = f"model, from each of {counted(len(model), 'start')}"
    print(f"- {begun}: ≤ {MAX_TRIALS} trials: {_verdict(found and most <= MAX_TRIALS)}")
    if grid_s is not None:
        is_short = found and longest_s <= TIME_SHARE * grid_s
        print(f"- {begun}: ≤ 1/8 of the grid's time: {_verdict(is_short)}")
    bayes_s = [spent_s(each) for each in done[BAYES]]
    pairs = [(spent_s(one), other) for one in model for other in bayes_s]
    slower = sum(other < one for one, other in pairs)
    worst = _verdict(found and longest_s <= median(bayes_s))
    middle = _verdict(found and median(map(spent_s, model)) <= median(bayes_s))
    print(
        f"- model no slower than bayes: in the median {middle}, at its worst {worst}; bayes was "
        f"faster in {slower} of {len(pairs)} comparisons"
    )


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


if __name__ == "__main__":
    main()
