"""How soon each search strategy finds a fast setting, by replaying a fully recorded grid.

A strategy proposes, the grid answers with what was measured for that setting; nothing runs. What
counts is when a setting within 5 % of the grid's best has been tried, in trials and in minutes of
pulling (the time between pulls is the same for each strategy). Strategies that draw do so with
several seeds. Needs no root: `python -m tests.bench.bench_search`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from sysctl.results import PRESENT, Results, Trial
from sysctl.search import Strategy
from sysctl.search.strategies import BAYES, GRID, MODEL, RANDOM, make_strategy
from sysctl.sweep import FLOOR_RUNS
from tests.bench.figures import print_table
from tests.bench.grids import WIDEST, candidates, recorded, title

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


def replay(strategy: Strategy, grid: Results, start: Results) -> Replay:
    """Let the strategy search a recorded grid, of which it knows the present runs at first."""
    by_setting = {trial.setting: trial for trial in candidates(grid)}
    goal_s = min(_return_s(trial) for trial in by_setting.values()) * (1 + WITHIN)
    done: list[Trial] = list(start.trials)
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


def replays(make: Callable[[int], Strategy], grid: Results, seeds: Sequence[int]) -> list[Replay]:
    """A replay for each seed; the model knows the two present runs that a sweep begins with."""
    start = Results(grid.context, {}, [], grid.of_role(PRESENT)[:FLOOR_RUNS])
    return [replay(make(seed), grid, start) for seed in seeds]


def row(name: str, done: Sequence[Replay], grid_s: float) -> tuple[str, ...]:
    """Medians over the seeds; a search that never found one counts as all of its trials."""
    found = [each for each in done if each.found_after is not None]
    after = median(each.found_after or each.trials for each in done)
    spent_s = median(each.found_s if each.found_after else each.total_s for each in done)
    return (
        name,
        f"{len(found)} of {len(done)}",
        f"{after:.0f}",
        f"{spent_s / 60:.1f}",
        f"{spent_s / grid_s:.0%}",
        f"{median(each.trials for each in done):.0f}",
        f"{median(each.total_s for each in done) / 60:.1f}",
    )


def main() -> None:
    """Every strategy over the widest grid."""
    grid = recorded(WIDEST)
    settings = tuple(trial.setting for trial in candidates(grid))
    grid_s = sum(_return_s(trial) for trial in candidates(grid))
    done = {
        name: replays(
            lambda seed, name=name: make_strategy(name, settings, grid.context, seed),
            grid,
            SEEDS if name in DRAWN else SEEDS[:1],
        )
        for name in (MODEL, BAYES, RANDOM, GRID)
    }
    print(f"{len(settings)} settings, {title(grid)}; medians over {len(SEEDS)} seeds\n")
    header = ("strategy", f"within {WITHIN:.0%}", "trials until then", "minutes until then")
    header = (*header, "of the grid's time", "trials", "minutes")
    print_table(header, [row(name, each, grid_s) for name, each in done.items()])
    print_goals(done, grid_s)


def print_goals(done: Mapping[str, Sequence[Replay]], grid_s: float) -> None:
    """Whether the model needs as little as wanted, and no more than bayes."""
    model = done[MODEL][0]
    is_soon = model.found_after is not None and model.found_after <= MAX_TRIALS
    print(f"- model: within {WITHIN:.0%} after ≤ {MAX_TRIALS} trials: {_verdict(is_soon)}")
    is_short = is_soon and model.found_s <= TIME_SHARE * grid_s
    print(f"- model: in ≤ 1/8 of the grid's time: {_verdict(is_short)}")
    bayes_s = [each.found_s if each.found_after else each.total_s for each in done[BAYES]]
    faster = sum(time_s < model.found_s for time_s in bayes_s)
    print(
        f"- model no slower than bayes: {_verdict(is_soon and model.found_s <= median(bayes_s))} "
        f"in the median; bayes was faster with {faster} of {len(bayes_s)} seeds"
    )


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


if __name__ == "__main__":
    main()
