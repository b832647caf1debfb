# SPDX-License-Identifier: Apache-2.0
"""What a sweep would do: its first trials, how many, how many bytes, how long, what it changes.

Nothing is changed and nothing is pulled; the prefix is listed. Which trials follow the first ones
depends on what these show, so their number is an estimate, with an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.pull.source import PullPlan
from profiler.study.request import StudyRequest
from profiler.study.study import prepare_without_host
from sysctl.evidence.comparison import MAX_PAIRS
from sysctl.evidence.price_label import ASSUMED_RATE_BYTES_PER_S
from sysctl.evidence.results import CANDIDATE, PRESENT, PRICE
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs.writeback import Thresholds, effective_thresholds
from sysctl.search.edge import EdgeSearch
from sysctl.search.extras import MOUNT, PAIRS, Extra
from sysctl.search.grid import Grid
from sysctl.sweep.steps import SweepPlan, remaining

#: What a trial takes besides its pull: the host's data written back, caches dropped, files deleted.
SETTLE_S = 5.0
#: So many candidates are shown of a search that names them all.
_SHOWN = 4
#: Settings of a search over candidates that are measured in pairs: the cheapest and the fastest.
_FINALISTS = 2


@dataclass(frozen=True)
class DryRun:
    """`first` are the first trials as role and setting; `trials` about how many, `most` at most.

    Failed trials are repeated, and are in neither. `pull_s` is one pull at `rate_bytes_per_s`,
    which is assumed; `limit_s` is the budget, None without one. `changes` are the knobs that may
    change, `current` the sysctls among them with their values, `thresholds` the current ones.
    """

    request: StudyRequest
    plan: PullPlan
    first: tuple[tuple[str, Setting], ...]
    trials: int
    most: int
    rate_bytes_per_s: float
    limit_s: float | None
    changes: tuple[str, ...]
    current: dict[str, int]
    thresholds: Thresholds

    @property
    def pull_s(self) -> float:
        """One pull at the assumed rate."""
        return self.plan.bytes / self.rate_bytes_per_s

    @property
    def about_s(self) -> float:
        """All trials at the assumed rate, or the budget where that is less."""
        return self._time_s(self.trials)

    @property
    def most_s(self) -> float:
        """The maximum number of trials at the assumed rate, or the budget where that is less."""
        return self._time_s(self.most)

    def _time_s(self, trials: int) -> float:
        all_s = trials * (self.pull_s + SETTLE_S)
        return all_s if self.limit_s is None else min(all_s, self.limit_s)


def dry_run(request: StudyRequest) -> DryRun:
    """Return what the sweep would do. Raises as `prepare_without_host`."""
    study = prepare_without_host(request)
    sweep = study.sweep_plan
    trials = remaining(study.results, sweep)
    current = dict(sweep.present.values)
    node = study.results.circumstances.node
    return DryRun(
        request=request,
        plan=study.plan,
        first=_first(study.results.trials == [], sweep),
        trials=trials,
        most=max(trials, _most(sweep, Runs.of(study.results))),
        rate_bytes_per_s=float(ASSUMED_RATE_BYTES_PER_S),
        limit_s=request.budget.time_s,
        changes=_changes(request, sweep),
        current=current,
        thresholds=effective_thresholds(current, node.dirtyable_bytes),
    )


def _first(is_new: bool, sweep: SweepPlan) -> tuple[tuple[str, Setting], ...]:
    """The trials that are known before any is made; none of a sweep that is resumed."""
    if not is_new:
        return ()
    return (
        (PRICE, sweep.present),
        (PRESENT, sweep.present),
        *((CANDIDATE, each) for each in _candidates(sweep)),
    )


def _candidates(sweep: SweepPlan) -> list[Setting]:
    strategy = sweep.strategy
    if isinstance(strategy, EdgeSearch):
        return [ladder[-1] for ladder in strategy.ladders[:1]]
    return list(strategy.candidates[:_SHOWN]) if isinstance(strategy, Grid) else []


def _most(sweep: SweepPlan, runs: Runs) -> int:
    """The trials still to come if every part takes as many as it may."""
    if sweep.budget.trials is not None:
        return max(0, sweep.budget.trials - len(runs.trials))
    strategy, finalists = sweep.strategy, _FINALISTS
    if isinstance(strategy, EdgeSearch):
        searched, finalists = sum(map(len, strategy.ladders)) + len(strategy.ladders), 1
    else:
        searched = strategy.remaining(runs)
    of_extras = 2 * PAIRS * (1 + len(sweep.extras)) if sweep.extras else 0
    return 2 + searched + of_extras + MAX_PAIRS * (1 + finalists) + 1


def _changes(request: StudyRequest, sweep: SweepPlan) -> tuple[str, ...]:
    if not request.changes_host:
        return ()
    thresholds: list[str] = []
    if isinstance(sweep.strategy, EdgeSearch):
        settings = [each for ladder in sweep.strategy.ladders for each in ladder]
    else:
        settings = list(getattr(sweep.strategy, "candidates", ()))
    for setting in settings:
        thresholds += [name for name in setting.values if name in (*DIRTY_PAIR, *BACKGROUND_PAIR)]
    return tuple(dict.fromkeys([*thresholds, *map(_name, sweep.extras)]))


def _name(extra: Extra) -> str:
    return f"{MOUNT} {extra.value}" if extra.name == MOUNT else extra.name
