"""The sweep: the noise floor first, then a search, then a recheck of its best in pairs.

1. Floor: the present settings twice, so that it is known how much two equal runs differ; the first
   also waits for the device.
2. Search: the strategy's candidates, each measured once and stopped when it can no longer win; in
   a long search the present settings in between, so that a drift is seen.
3. Recheck (`sysctl/recheck.py`): the finalists in fresh pairs with the present settings.

What a trial does to the host and how it measures is the bench's (`profiler/pull_bench.py`), when it
counts is the protocol's (`sysctl/protocol.py`); this module decides what comes next and keeps the
results, so it runs in tests without root.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Protocol

from contracts.errors import WritewiseError
from sysctl import recheck
from sysctl.budget import Budget
from sysctl.knobs_tried import changed_transfer
from sysctl.protocol import (
    ATTEMPTS,
    candidates_since_present,
    invalid_reason,
    stop_after_s,
    to_repeat,
    valid_present,
)
from sysctl.results import CANDIDATE, PRESENT, RECHECK, Observation, Results, Trial
from sysctl.search import Strategy
from sysctl.search.grid import untried
from sysctl.setting import Setting

#: Runs of the present settings before the search.
FLOOR_RUNS = 2
#: In a long search the present settings run again after so many candidates.
GUARD_EVERY = 8


class StoppedEarly(Exception):  # noqa: N818 - not an error: the trial could no longer win
    """A pull took longer than it was given."""


class Bench(Protocol):
    """What a trial does. A WritewiseError makes the trial invalid, not the study."""

    def apply(self, setting: Setting) -> None:
        """Put the setting in force on the host and read it back."""

    def measure(
        self, *, durable: bool, stop_after_s: float | None = None, observe_price: bool = False
    ) -> Observation:
        """Settle, pull once, delete what was pulled. `durable`: also wait for the device.

        `observe_price`: it waits, too, a neighbour runs until then, and the observation has its
        `price`. Raises StoppedEarly, all deleted too, when the pull takes longer than
        `stop_after_s`.
        """

    def require_destination(self) -> None:
        """Raise WritewiseError when no trial can succeed: the volume is gone, or takes no files."""


@dataclass(frozen=True)
class SweepPlan:
    """What is to be tried: the present settings, those `always` tried, then the strategy's.

    `always` is no matter of the strategy, so it holds with every one.
    """

    present: Setting
    strategy: Strategy
    always: tuple[Setting, ...] = ()
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True)
class Step:
    """One trial to come and how many, as far as known, follow it."""

    role: str
    setting: Setting
    durable: bool
    remaining: int
    pair: int | None = None
    stop_after_s: float | None = None


def next_step(results: Results, plan: SweepPlan) -> Step | None:
    """What to try next, from the results alone: a resumed sweep goes on where it stopped."""
    failed = to_repeat(results.trials)
    if failed is not None:
        return _step(results, plan, failed.role, failed.setting, failed.pair)
    if not recheck.has_begun(results):
        found = _floor_or_candidate(results, plan)
        if found is not None:
            return _step(results, plan, *found, None)
    run = recheck.next_run(results, plan.present, plan.budget)
    return _step(results, plan, run.role, run.setting, run.pair) if run else None


def _floor_or_candidate(results: Results, plan: SweepPlan) -> tuple[str, Setting] | None:
    """The role and the setting of the next run before the recheck; None when its time has come."""
    if len(valid_present(results)) < FLOOR_RUNS:
        return PRESENT, plan.present
    if not plan.budget.affords(results, [CANDIDATE, *recheck.minimum(results)], syncs=1):
        return None
    first = next(iter(untried(plan.always, results.trials)), None)
    setting = first or plan.strategy.next_setting(results.trials)
    if setting is None:
        return None
    if candidates_since_present(results.trials) >= GUARD_EVERY:
        return PRESENT, plan.present
    return CANDIDATE, setting


def _step(results: Results, plan: SweepPlan, role: str, setting: Setting, pair: int | None) -> Step:
    """The step with what follows from the results: whether it waits for the device, its limit."""
    return Step(
        role,
        setting,
        durable=_is_durable(results, plan, role, setting),
        remaining=max(0, remaining(results, plan) - 1),
        pair=pair,
        stop_after_s=stop_after_s(results) if role == CANDIDATE else None,
    )


def _is_durable(results: Results, plan: SweepPlan, role: str, setting: Setting) -> bool:
    """Once for the present settings, once for the preferred finalist: it takes long."""
    if role == RECHECK:
        chosen = recheck.affordable_finalists(results, plan.budget)
        role_fits = chosen[:1] == [setting]
    else:
        role_fits = role == PRESENT
    measured = (t.valid for t in results.trials if t.setting == setting and t.role == role)
    return role_fits and not any(seen and seen.durable_s is not None for seen in measured)


def remaining(results: Results, plan: SweepPlan) -> int:
    """How many trials are still to come, as far as is known: pairs may be added at the end."""
    if recheck.has_begun(results):
        run = recheck.next_run(results, plan.present, plan.budget)
        if run is None:
            return 0
        blocks_left = max(0, recheck.MIN_PAIRS - 1 - run.pair)
        size = len(recheck.affordable_finalists(results, plan.budget)) + 1
        return run.block_left + 1 + blocks_left * size
    floor = max(0, FLOOR_RUNS - len(results.of_role(PRESENT)))
    always = len(untried(plan.always, results.trials))
    search = always + plan.strategy.remaining(results.trials)
    expected = floor + search + search // GUARD_EVERY + len(recheck.minimum(results))
    most = plan.budget.trials
    return expected if most is None else min(expected, most - len(results.trials))


def run_sweep(
    results: Results,
    plan: SweepPlan,
    bench: Bench,
    *,
    on_step: Callable[[Step], None],
    on_trial: Callable[[Trial], None],
    clock_s: Callable[[], float] = time.monotonic,
) -> None:
    """Try everything that is left to try. `on_trial` keeps the results after each trial.

    A trial that fails is kept with its reason, repeated, and the sweep goes on, unless the
    destination is lost; without `FLOOR_RUNS` valid runs of the present settings there is nothing to
    compare with, so that failure is raised.
    """
    failures = 0
    while True:
        step = next_step(results, plan)
        if step is None:
            return
        on_step(step)
        trial = run_trial(bench, step, results, clock_s)
        results.trials.append(trial)
        on_trial(trial)
        failures = failures + 1 if trial.problem else 0
        if failures and failures % ATTEMPTS == 0:
            bench.require_destination()
        if failures == ATTEMPTS and len(valid_present(results)) < FLOOR_RUNS:
            del results.trials[-ATTEMPTS:]
            raise WritewiseError(
                f"no valid pull under the present settings in {ATTEMPTS} attempts: {trial.problem}",
                "mend the cause, or wait until the host is quieter, and sweep again",
            )


def _problem(seen: Observation, setting: Setting, before: Results | None) -> str:
    """Why an observation does not count beside the runs `before`; empty if it does."""
    if before is None:
        return invalid_reason(seen, setting, ())
    observations = [trial.observation for trial in before.trials if trial.observation]
    # a disk that gets less from the pull writes less, without being slower
    is_other_pull = bool(changed_transfer(before, setting))
    beside = [] if is_other_pull else valid_present(before)
    return invalid_reason(seen, setting, beside, observations)


def run_trial(
    bench: Bench,
    step: Step,
    before: Results | None = None,
    clock_s: Callable[[], float] = time.monotonic,
) -> Trial:
    """Carry out one trial; a failure becomes its `problem`, also one beside the runs `before`."""
    started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    began_s = clock_s()
    observation, problem, stopped_s = None, "", None
    try:
        bench.apply(step.setting)
        observation = bench.measure(durable=step.durable, stop_after_s=step.stop_after_s)
        problem = _problem(observation, step.setting, before)
    except StoppedEarly:
        stopped_s = step.stop_after_s
    except WritewiseError as error:
        problem = error.message
    return Trial(
        role=step.role,
        setting=step.setting,
        started_at=started_at,
        observation=observation,
        problem=problem,
        pair=step.pair,
        stopped_s=stopped_s,
        elapsed_s=clock_s() - began_s,
    )
