"""The sweep: the present settings, a search, and what it found in pairs with the present ones.

1. Present: once watched until all is on the device, for its price; it also warms caches and
   connections, and counts in no comparison. Then once more.
2. Search: the strategy's candidates, stopped when they can no longer win.
3. Extras (`sysctl/search/extras.py`): under the setting found, in blocks with it and without them.
4. Recheck (`sysctl/sweep/recheck.py`): what came of it in blocks with the present settings.
5. Price: what may be recommended once more, watched until all is on the device.

What a trial does to the host and how it measures is the bench's (`profiler/study/bench.py`), when
it counts is the protocol's (`sysctl/evidence/protocol.py`); this module decides what comes next and
keeps the results, so it runs in tests without root.
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
    """What is to be tried: the present settings, the strategy's, then extras beside its best."""

    present: Setting
    strategy: Strategy
    extras: tuple[Extra, ...] = ()
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


#: Role, setting and number of the block of a run that is due.
_Due = tuple[str, Setting, "int | None"]


def next_step(results: Results, plan: SweepPlan) -> Step | None:
    """Return what to try next, from the results alone: a resumed sweep goes on where it stopped."""
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
    """What lies beyond the limits of the sweep cannot win, and so stops no other."""
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
    """The roles of the runs that a recheck takes at least."""
    return [PRESENT, *[RECHECK] * finalists] * MIN_PAIRS


def _least_end(finalists: int) -> list[str]:
    """The same with the run for the price of what is recommended, the one that waits."""
    return [*_least_pairs(finalists), PRICE]


def _members(known: Runs, plan: SweepPlan) -> list[Setting]:
    """The settings of the next block, from the blocks before it."""
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
    """The setting beside which the extras are tried: the one found, if its thresholds count."""
    found = next(iter(plan.strategy.finalists(known)), plan.present)
    is_credible = known.present_stall_share >= NEGLIGIBLE_SHARE
    return found if is_credible or not known.baseline.changed_thresholds(found) else plan.present


def _role(member: Setting, plan: SweepPlan) -> str:
    return PRESENT if member == plan.present else RECHECK


def _affords(
    known: Runs, plan: SweepPlan, members: Sequence[Setting], finalists: Sequence[Setting]
) -> bool:
    """Whether a block of extras leaves enough for the recheck."""
    roles = [_role(each, plan) for each in members]
    return plan.budget.affords(known, [*roles, *_least_end(len(finalists))], syncs=1)


def _affordable(known: Runs, plan: SweepPlan, finalists: list[Setting]) -> list[Setting]:
    """Only so many finalists as the budget can compare when the search has ended; at least one."""
    searched = known.where(lambda trial: trial.pair is None)
    for count in range(len(finalists), 1, -1):
        if plan.budget.affords(searched, _least_end(count), syncs=1):
            return finalists[:count]
    return finalists[:1]


def _last_price(runs: Runs, plan: SweepPlan) -> _Due | None:
    """What the settings cost that may be recommended, the preferred one first; None if none may.

    A time to durable that is not known yet is within the limits: this run is to measure it.
    """
    limits, found = limits_of(runs.circumstances), analyse(runs, Limits())
    within = [each for each in found.within if not limits.breaks(each.price)]
    if not within or not plan.budget.affords(runs, [RECHECK], syncs=1):
        return None
    ranked = [each.setting for each in found.preferred_first(within)]
    left = [setting for setting in ranked if not _is_watched(runs, setting)]
    return (PRICE, left[0], None) if left else None


def remaining(results: Results, plan: SweepPlan) -> int:
    """Return how many trials are still to come, as far as is known: pairs may be added."""
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
    """Those of the extras, if none is given up and none combined, and of the shortest recheck."""
    least, base = len(_least_pairs(1)), _base(runs, plan)
    extras, _ = worth_trying(runs, base, plan.extras)
    if ExtraPairs(runs).judge(base, extras).members:
        return max(0, PAIRS * (1 + len(extras)) - len(paired)) + least
    rechecked = {trial.pair for trial in paired if trial.role == PRESENT}
    if run := blocks.next_run(runs, lambda known: _members(known, plan)):
        rechecked.add(run[1])
    return max(0, least - sum(trial.pair in rechecked for trial in paired))


def left_out(results: Results, plan: SweepPlan) -> list[LeftOut]:
    """Return the extras that are not tried, and what speaks against them, once that is known."""
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
    """Try everything that is left to try. `on_trial` keeps the results after each trial.

    A trial that fails is kept with its reason, repeated, and the sweep goes on, unless the
    destination is lost; without a valid run of the present settings there is nothing to compare
    with, so that failure is raised.
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
                f"no valid pull under the present settings in {ATTEMPTS} attempts: {trial.problem}",
                "mend the cause, or wait until the host is quieter, and sweep again",
            )


def _failures_at_the_end(results: Results) -> int:
    """How many trials failed since the last one that did not: those of before a resume count."""
    problems = [bool(trial.problem) for trial in reversed(results.trials)]
    return problems.index(False) if False in problems else len(problems)


def _problem(seen: Observation, setting: Setting, before: Results | None) -> str | None:
    """Why an observation does not count next to the runs `before`; None if it does."""
    if before is None:
        return invalid_reason(seen, setting, ())
    runs = Runs.of(before)
    observations = [trial.observation for trial in runs.trials if trial.observation]
    # a disk that gets less from the pull writes less, without being slower
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
    """Carry out one trial; a failure becomes its `problem`, also one beside the runs `before`."""
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
