"""The search and its recheck, from the first trial (boto3's defaults) to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from contracts.shared.errors import UsageError
from contracts.shared.units import format_seconds
from profiler.pull.errors import PullError
from profiler.pull.settings import TransferSettings
from profiler.tune.budget import Budget, failing
from profiler.tune.limits import Load, name_limit
from profiler.tune.recheck import DEFAULT_PAIRS, SHARE_OF_BUDGET, PairedPulls, Recheck
from profiler.tune.space import (
    DEFAULTS,
    Axis,
    Point,
    client_at,
    defaults_beyond,
    point_of,
    settings_at,
)
from profiler.tune.strategies import Strategy
from profiler.tune.trial import State, Trial, TrialRunner

OnTrial = Callable[[Trial], None]


@dataclass(frozen=True)
class Tuning:
    """All that was measured, and what follows of it.

    The first trial is the defaults'. `limit` is what held the defaults back, as far as the trials
    tell; `ended` is why the search ended. `context` is where it was measured, for the record,
    `problem` why there is no verdict. `ended_by` is the Ctrl-C or the signal's SystemExit
    that ended it early; then nothing is recommended.
    """

    base: TransferSettings
    trials: tuple[Trial, ...]
    ended: str
    recheck: Recheck | None
    limit: str
    problem: str = ""
    context: dict[str, object] = field(default_factory=dict)
    ended_by: BaseException | None = field(default=None, compare=False)

    @property
    def default(self) -> Trial:
        """The trial of the defaults."""
        return self.trials[0]

    @property
    def best(self) -> Trial:
        """The fastest of the complete trials."""
        return best_of(self.trials)

    @property
    def has_verdict(self) -> bool:
        """Whether it came to its end: only then it says whether anything is to be changed."""
        return self.ended_by is None and not self.problem

    @property
    def recommended(self) -> TransferSettings | None:
        """The settings to change to, or None when the recheck did not show that they are faster."""
        if not self.has_verdict:
            return None
        if self.recheck is None or not self.recheck.is_faster:
            return None
        return settings_at(self.best.point, self.base)

    @property
    def recommended_client(self) -> str | None:
        """The client that goes with the recommended settings; None where none are."""
        return None if self.recommended is None else client_at(self.best.point)


def best_of(trials: Sequence[Trial]) -> Trial:
    """The fastest of the complete trials; the defaults' is one of them."""
    return min(
        (trial for trial in trials if trial.mean_s is not None),
        key=lambda trial: trial.mean_s or 0.0,
    )


@dataclass
class Tuner:
    """Searches within a budget. `base` has what is not searched; `load` is for naming the limit.

    `apart` is the point of the defaults where the strategy's axes have it not: it is measured first
    and not told to the strategy.
    """

    runner: TrialRunner
    strategy: Strategy
    budget: Budget
    base: TransferSettings
    load: Load
    apart: Point | None = None
    pairs: int = DEFAULT_PAIRS
    on_trial: OnTrial = lambda trial: None

    @property
    def recheck_limit_s(self) -> float:
        """What the recheck may take in seconds, two pairs aside."""
        return self.budget.seconds * SHARE_OF_BUDGET

    def run(self) -> Tuning:
        """Search, then recheck; neither a failing recheck nor a signal loses what was found.

        Raises PullError when the defaults cannot be pulled with, UsageError when not even one
        trial fits, and the signal's exception when it comes before the first trial has ended.
        """
        trials: list[Trial] = []
        pulls = PairedPulls(self.pairs, self.recheck_limit_s, self.runner.clock)
        ended, problem, ended_by = "it was interrupted", "", None
        try:
            ended = self.search(trials)
            problem = self._recheck(trials, pulls)
        except (KeyboardInterrupt, SystemExit) as signal:
            if not trials:
                raise
            ended_by = signal
        limit = name_limit(trials[0], trials, self.base, self.load)
        return Tuning(
            self.base, tuple(trials), ended, pulls.whole(), limit, problem, ended_by=ended_by
        )

    def _recheck(self, trials: Sequence[Trial], pulls: PairedPulls) -> str:
        """Why it told nothing; empty when it did, or when there is nothing to recheck."""
        default, best = trials[0].point, best_of(trials).point
        if best == default or not self.pairs:
            return failing(trials)
        try:
            pulls.run(self.runner.bench, default, best)
        except PullError as error:
            return f"the recheck failed. {error.message}"
        return ""

    def search(self, trials: list[Trial]) -> str:
        """Add the trials one by one; why they ended."""
        while not (ended := self._ended(trials)):
            trial = self._next(trials)
            if not trials and trial.state is not State.COMPLETE:
                raise self._too_small()
            trials.append(trial)
            self.on_trial(trial)
        if not trials:
            raise self._too_small()
        return ended

    def _ended(self, trials: Sequence[Trial]) -> str:
        return failing(trials) or self.budget.used_up(trials, self.runner.elapsed_s)

    def _next(self, trials: Sequence[Trial]) -> Trial:
        best_s = best_of(trials).mean_s if trials else None
        number, until_s = len(trials), self.budget.seconds
        if self.apart is not None and not trials:
            return self.runner.run(number, self.apart, best_s, until_s)
        point = self.strategy.ask()
        trial = self.runner.run(number, point, best_s, until_s)
        self.strategy.tell(point, trial.told_s)
        return trial

    def _too_small(self) -> UsageError:
        given = format_seconds(self.budget.seconds)
        return UsageError(
            f"the budget of {given} is over before boto3's defaults were measured once",
            "give a larger --budget, fewer --pulls, or a smaller object",
        )


def first_points(present: TransferSettings, axes: Sequence[Axis]) -> list[Point]:
    """Where a strategy begins: boto3's defaults if the axes have them, and the present settings."""
    if defaults_beyond(present, axes) is not None:
        return [point_of(present, axes)]
    points: list[Point] = [point_of(DEFAULTS, axes), point_of(present, axes)]
    return points[:1] if points[0] == points[1] else points
