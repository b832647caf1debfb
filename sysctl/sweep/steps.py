# SPDX-License-Identifier: Apache-2.0
"""The sweep: the current settings, a search, and a recheck of its finalists in pairs.

1. Current settings: one run until all data is durable, for the price; it also warms caches and
   connections, and is not compared. Then one more run.
2. Search: the strategy's candidates, stopped when they can no longer win.
3. Extras (`sysctl/search/extras.py`): under the setting found, in blocks with and without them.
4. Recheck (`sysctl/sweep/recheck.py`): the result in blocks with the current settings.
5. Price: the setting that may be recommended, once more until all data is durable.

The bench (`profiler/study/bench.py`) changes the host and measures; the protocol
(`sysctl/evidence/protocol.py`) decides whether a trial counts. This module decides what runs next
and keeps the results, so tests run it without root.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Protocol

from contracts.shared.errors import WritewiseError
from sysctl.advice.analysis import analyse
from sysctl.evidence.comparison import MIN_PAIRS, NEGLIGIBLE_SHARE
from sysctl.evidence.price import Limits, limits_of
from sysctl.evidence.protocol import (
    ATTEMPTS,
    concluded,
    invalid_reason,
    stop_after_s,
    to_repeat,
)
from sysctl.evidence.results import (
    CANDIDATE,
    PRESENT,
    PRICE,
    RECHECK,
    LeftOut,
    Observation,
    Results,
    Trial,
)
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.search import Strategy
from sysctl.search.extras import PAIRS, Extra, ExtraPairs, worth_trying
from sysctl.search.finalists import within_limits
from sysctl.sweep import blocks, recheck
from sysctl.sweep.budget import Budget


class StoppedEarly(Exception):  # noqa: N818 - not an error: the trial could no longer win
    """A pull exceeded its time limit."""


class Bench(Protocol):
    """Carries out trials. A WritewiseError makes the trial invalid but does not end the study."""

    def apply(self, setting: Setting) -> None:
        """Apply the setting to the host and read it back."""

    def measure(
        self, *, durable: bool, stop_after_s: float | None = None, observe_price: bool = False
    ) -> Observation:
        """Settle, pull once, delete the files. `durable`: also wait until all data is durable.

        `observe_price`: wait too, with a neighbour running, and return its `price`. Raises
        StoppedEarly, after deleting the files, if the pull takes longer than `stop_after_s`.
        """

    def require_destination(self) -> None:
        """Raise WritewiseError if no trial can succeed: the volume is gone or not writable."""


@dataclass(frozen=True)
class SweepPlan:
    """What to try: the current settings, the strategy's candidates, then extras on its best."""

    present: Setting
    strategy: Strategy
    extras: tuple[Extra, ...] = ()
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True)
class Step:
    """The next trial, and the expected number of trials after it."""

    role: str
    setting: Setting
    durable: bool
    remaining: int
    pair: int | None = None
    stop_after_s: float | None = None


#: Role, setting and block number of a run that is due.
_Due = tuple[str, Setting, "int | None"]


def next_step(results: Results, plan: SweepPlan) -> Step | None:
    """Return what to try next. It depends only on the results, so a sweep can be resumed."""
    runs = Runs.of(results)
    if not plan.budget.has_trial_left(runs):
        return None
    failed = to_repeat(runs.trials)
    due = (failed.role, failed.setting, failed.pair) if failed else _due(runs, plan)
    if due is None:
        return None
    role, setting, pair = due
    return Step(
        role,
        setting,
        durable=role == PRICE,
        remaining=max(0, _remaining(runs, plan) - 1),
        pair=pair,
        stop_after_s=_stop_after_s(runs) if role == CANDIDATE else None,
    )


def _stop_after_s(runs: Runs) -> float | None:
    """Return when to stop a candidate; settings beyond the limits cannot win and do not count."""
    tried = dict.fromkeys(trial.setting for trial in runs.of_role(CANDIDATE))
    return stop_after_s(runs, set(within_limits(runs, tried, limits_of(runs.circumstances))))


def _due(runs: Runs, plan: SweepPlan) -> _Due | None:
    if not _is_watched(runs, plan.present):
        return PRICE, plan.present, None
    if not runs.valid_present:
        return PRESENT, plan.present, None
    has_pairs = any(trial.pair is not None for trial in runs.trials)
    setting = None if has_pairs else _candidate(runs, plan)
    if setting is not None:
        return CANDIDATE, setting, None
    run = blocks.next_run(runs, lambda known: _members(known, plan))
    if run is None:
        return _last_price(runs, plan)
    return _role(run[0], plan), *run


def _is_watched(runs: Runs, setting: Setting) -> bool:
    ended = concluded(runs.trials)
    return any(trial.role == PRICE and trial.setting == setting for trial in ended)


def _candidate(runs: Runs, plan: SweepPlan) -> Setting | None:
    is_affordable = plan.budget.affords(runs, [CANDIDATE, *_least_end(1)], syncs=1)
    return plan.strategy.next_setting(runs) if is_affordable else None


def _least_pairs(finalists: int) -> list[str]:
    """Return the roles of the runs of the shortest recheck."""
    return [PRESENT, *[RECHECK] * finalists] * MIN_PAIRS


def _least_end(finalists: int) -> list[str]:
    """Return the same with the run for the price, which waits for the device."""
    return [*_least_pairs(finalists), PRICE]


def _members(known: Runs, plan: SweepPlan) -> list[Setting]:
    """Return the settings of the next block, from the blocks before it."""
    finalists = list(plan.strategy.finalists(known))
    base = _base(known, plan)
    found = ExtraPairs(known).judge(base, worth_trying(known, base, plan.extras)[0])
    if found.members and _affords(known, plan, found.members, finalists):
        return list(found.members)
    chosen = [
        each for each in dict.fromkeys([found.setting, *finalists[1:]]) if each != plan.present
    ]
    members = recheck.members(known, plan.present, _affordable(known, plan, chosen))
    begun = sum(trial.role == PRESENT and trial.pair is not None for trial in known.trials)
    roles = [_role(each, plan) for each in members]
    is_affordable = plan.budget.affords(known, [*roles, PRICE], syncs=1)
    return members if begun < MIN_PAIRS or is_affordable else []


def _base(known: Runs, plan: SweepPlan) -> Setting:
    """Return the base of the extras: the setting found, if its thresholds count."""
    found = next(iter(plan.strategy.finalists(known)), plan.present)
    is_credible = known.present_stall_share >= NEGLIGIBLE_SHARE
    return found if is_credible or not known.baseline.changed_thresholds(found) else plan.present


def _role(member: Setting, plan: SweepPlan) -> str:
    return PRESENT if member == plan.present else RECHECK


def _affords(
    known: Runs, plan: SweepPlan, members: Sequence[Setting], finalists: Sequence[Setting]
) -> bool:
    """Return whether the budget allows a block of extras and then the recheck."""
    roles = [_role(each, plan) for each in members]
    return plan.budget.affords(known, [*roles, *_least_end(len(finalists))], syncs=1)


def _affordable(known: Runs, plan: SweepPlan, finalists: list[Setting]) -> list[Setting]:
    """Return the finalists that the budget can compare after the search, at least one."""
    searched = known.where(lambda trial: trial.pair is None)
    for count in range(len(finalists), 1, -1):
        if plan.budget.affords(searched, _least_end(count), syncs=1):
            return finalists[:count]
    return finalists[:1]


def _last_price(runs: Runs, plan: SweepPlan) -> _Due | None:
    """Return the run for the price of the preferred setting; None if there is none to run.

    An unknown time to durable counts as within the limits, because this run measures it.
    """
    limits, found = limits_of(runs.circumstances), analyse(runs, Limits())
    within = [each for each in found.within if not limits.breaks(each.price)]
    if not within or not plan.budget.affords(runs, [RECHECK], syncs=1):
        return None
    ranked = [each.setting for each in found.preferred_first(within)]
    left = [setting for setting in ranked if not _is_watched(runs, setting)]
    return (PRICE, left[0], None) if left else None


def remaining(results: Results, plan: SweepPlan) -> int:
    """Return the expected number of trials still to run; pairs may be added."""
    return _remaining(Runs.of(results), plan)


def _remaining(runs: Runs, plan: SweepPlan) -> int:
    paired = concluded([trial for trial in runs.trials if trial.pair is not None])
    watched = sum(trial.role == PRICE for trial in concluded(runs.trials))
    present = 0 if runs.valid_present else 1
    search = 0 if paired else plan.strategy.remaining(runs)
    expected = max(1, 2 - watched) + present + search + _paired_runs_left(runs, plan, paired)
    most = plan.budget.trials
    return expected if most is None else min(expected, most - len(runs.trials))


def _paired_runs_left(runs: Runs, plan: SweepPlan, paired: Sequence[Trial]) -> int:
    """Return the expected runs of the extras, with all pairs, and of the shortest recheck."""
    least, base = len(_least_pairs(1)), _base(runs, plan)
    extras, _ = worth_trying(runs, base, plan.extras)
    if ExtraPairs(runs).judge(base, extras).members:
        return max(0, PAIRS * (1 + len(extras)) - len(paired)) + least
    rechecked = {trial.pair for trial in paired if trial.role == PRESENT}
    if run := blocks.next_run(runs, lambda known: _members(known, plan)):
        rechecked.add(run[1])
    return max(0, least - sum(trial.pair in rechecked for trial in paired))


def left_out(results: Results, plan: SweepPlan) -> list[LeftOut]:
    """Return the extras that are not tried, with the reasons, once these are known."""
    runs = Runs.of(results)
    if not runs.valid_present or _candidate(runs, plan) is not None:
        return []
    return worth_trying(runs, _base(runs, plan), plan.extras)[1]


def run_sweep(
    results: Results,
    plan: SweepPlan,
    bench: Bench,
    *,
    on_step: Callable[[Step], None],
    on_trial: Callable[[Trial], None],
    clock_s: Callable[[], float] = time.monotonic,
) -> None:
    """Run all trials that are left. `on_trial` saves the results after each trial.

    A failed trial is kept with its reason and repeated, and the sweep continues unless the
    destination is lost. Raises WritewiseError without a valid run of the current settings, because
    there is then nothing to compare with.
    """
    while step := next_step(results, plan):
        on_step(step)
        trial = run_trial(bench, step, results, clock_s)
        results.trials.append(trial)
        on_trial(trial)
        failures = _failures_at_the_end(results)
        if failures and failures % ATTEMPTS == 0:
            bench.require_destination()
        if failures == ATTEMPTS and not Runs.of(results).valid_present:
            del results.trials[-ATTEMPTS:]
            raise WritewiseError(
                f"no valid pull under the current settings in {ATTEMPTS} attempts: {trial.problem}",
                "fix the cause, or wait until the host is quieter, and run the sweep again",
            )


def _failures_at_the_end(results: Results) -> int:
    """Return the number of failed trials at the end, also those before a resume."""
    problems = [bool(trial.problem) for trial in reversed(results.trials)]
    return problems.index(False) if False in problems else len(problems)


def _problem(seen: Observation, setting: Setting, before: Results | None) -> str | None:
    """Return why an observation is not comparable with the runs `before`; None if it is."""
    if before is None:
        return invalid_reason(seen, setting, ())
    runs = Runs.of(before)
    observations = [trial.observation for trial in runs.trials if trial.observation]
    # with other transfer settings the pull may be slower, so the disk writes less
    is_other_pull = bool(runs.baseline.changed_transfer(setting))
    present = [] if is_other_pull else runs.valid_present
    alike = (trial.observation for trial in runs.of_setting(setting))
    waits = [runs.cpu_wait_share(run) for run in (seen, *alike) if run]
    return invalid_reason(seen, setting, present, observations, waits)


def run_trial(
    bench: Bench,
    step: Step,
    before: Results | None = None,
    clock_s: Callable[[], float] = time.monotonic,
) -> Trial:
    """Run one trial; a failure, also by comparison with the runs `before`, is its `problem`."""
    started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    began_s = clock_s()
    observation, problem, stopped_s = None, "", None
    try:
        bench.apply(step.setting)
        observation = bench.measure(
            durable=step.durable,
            stop_after_s=step.stop_after_s,
            observe_price=step.role == PRICE,
        )
        problem = _problem(observation, step.setting, before) or ""
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
