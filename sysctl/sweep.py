"""The sweep: the present settings first, in the middle and last, every candidate between.

At the end what the advisor would choose is run once more, so that it is not chosen by luck.

What a trial does to the host and how it measures is the bench's (`profiler/pull_bench.py`); this
module decides what comes next and keeps the results, so it runs in tests without root.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

from contracts.errors import WritewiseError
from sysctl.advise import choose
from sysctl.results import CANDIDATE, PRESENT, RECHECK, Observation, Results, Trial
from sysctl.search import Strategy
from sysctl.setting import Setting

#: How often the present settings are measured: first, in the middle, last.
PRESENT_REPEATS = 3


class Bench(Protocol):
    """What a trial does. A WritewiseError makes the trial invalid, not the study."""

    def apply(self, setting: Setting) -> None:
        """Put the setting in force on the host and read it back."""

    def measure(self, *, durable: bool) -> Observation:
        """Settle, pull once, delete what was pulled. `durable`: also wait for the device."""


@dataclass(frozen=True)
class Step:
    """One trial to come and how many, as far as known, follow it."""

    role: str
    setting: Setting
    durable: bool
    remaining: int


def next_step(results: Results, strategy: Strategy, present: Setting) -> Step | None:
    """What to try next, from the results alone: a resumed sweep goes on where it stopped."""
    presents = len(results.of_role(PRESENT))
    tried = len(results.of_role(CANDIDATE))
    candidates_left = strategy.remaining(results.trials)
    confirm = 0 if results.of_role(RECHECK) else 1
    remaining = candidates_left + max(0, PRESENT_REPEATS - presents) + confirm - 1
    if presents == 0 or (presents == 1 and tried >= candidates_left):
        return Step(PRESENT, present, durable=presents == 0, remaining=remaining)
    setting = strategy.next_setting(results.trials)
    if setting is not None:
        return Step(CANDIDATE, setting, durable=False, remaining=remaining)
    if presents < PRESENT_REPEATS:
        return Step(PRESENT, present, durable=False, remaining=remaining)
    chosen = choose(results) if confirm else None
    return Step(RECHECK, chosen.setting, durable=True, remaining=0) if chosen else None


def run_sweep(
    results: Results,
    strategy: Strategy,
    present: Setting,
    bench: Bench,
    *,
    on_step: Callable[[Step], None],
    on_trial: Callable[[Trial], None],
) -> None:
    """Try everything that is left to try. `on_trial` keeps the results after each trial.

    A trial that fails is kept with its reason and the sweep goes on; without one valid measurement
    of the present settings there is nothing to compare with, so that failure is raised.
    """
    while True:
        step = next_step(results, strategy, present)
        if step is None:
            return
        on_step(step)
        trial = run_trial(bench, step)
        if step.role == PRESENT and not results.of_role(PRESENT) and trial.problem:
            raise WritewiseError(f"the pull under the present settings failed: {trial.problem}")
        results.trials.append(trial)
        on_trial(trial)


def run_trial(bench: Bench, step: Step) -> Trial:
    """Carry out one trial; a failure becomes its `problem`."""
    started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    try:
        bench.apply(step.setting)
        observation = bench.measure(durable=step.durable)
    except WritewiseError as error:
        return Trial(step.role, step.setting, started_at, None, error.message)
    return Trial(step.role, step.setting, started_at, observation)
