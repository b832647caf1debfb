"""Bayesian search: Optuna's TPE over the candidates, told anew from the results each time.

Knobs are axes by the rank of their values, so that TPE knows which lie next to each other. Optuna
is an extra (`bayes`), imported late.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contracts.shared.errors import RequirementError
from contracts.shared.installation import how_to_add
from sysctl.evidence.results import CANDIDATE, Trial
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.search import untried
from sysctl.search.finalists import cheapest_and_fastest

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

MAX_TRIALS = 12
#: Trials before TPE has a say; its own default of 10 is a whole sweep here.
STARTUP_TRIALS = 4
#: It may propose what was tried or what cannot be; so often it is asked for something else.
_MAX_ASKED = 64
#: Searches of neighbouring seeds would else draw the same, one trial later.
_SEEDS_APART = 1_000_003

Coordinates = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class BayesSearch:
    """At most `max_trials` of the candidates; the same results and seed give the same proposal.

    Raises RequirementError where Optuna is not installed.
    """

    candidates: tuple[Setting, ...]
    seed: int = 0
    max_trials: int = MAX_TRIALS

    def __post_init__(self) -> None:
        if importlib.util.find_spec("optuna") is None:
            raise RequirementError(
                "the strategy bayes needs Optuna, which is not installed",
                f"install it with `{how_to_add('bayes')}`; "
                "the strategies edge, grid and random need nothing more",
            )

    def next_setting(self, runs: Runs) -> Setting | None:
        """Return what TPE expects most of, or None when enough was tried."""
        done = runs.trials
        left = untried(self.candidates, done)
        if not left or not self.remaining(runs):
            return None
        axes = _axes(self.candidates)
        by_coordinates = {coordinates(setting, axes): setting for setting in left}
        study = self._study(done, axes)
        for _ in range(_MAX_ASKED):
            trial = study.ask(_distributions(axes))
            setting = by_coordinates.get(_of_parameters(trial.params, axes))
            if setting is not None:
                return setting
        return random.Random(self.seed + len(done)).choice(left)  # noqa: S311

    def remaining(self, runs: Runs) -> int:
        """See `Strategy`."""
        left = len(untried(self.candidates, runs.trials))
        tried = len(self.candidates) - left
        return max(0, min(self.max_trials - tried, left))

    def finalists(self, runs: Runs) -> Sequence[Setting]:
        """See `Strategy`."""
        return cheapest_and_fastest(runs)

    def _study(self, done: Sequence[Trial], axes: Mapping[str, Sequence[int]]) -> Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        known = set(self.candidates)
        told = [t for t in done if t.role == CANDIDATE and t.setting in known]
        seed = (self.seed * _SEEDS_APART + len(told)) % 2**32  # NumPy's range
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
        study = optuna.create_study(sampler=sampler)
        study.add_trials([frozen for t in told for frozen in _told(t, axes)])
        return study


def _told(trial: Trial, axes: Mapping[str, Sequence[int]]) -> list[FrozenTrial]:
    """A trial as Optuna knows it: one stopped early was worse than all that ended; none failed."""
    from optuna.trial import TrialState, create_trial

    where: dict[str, Any] = {
        "params": _parameters(trial.setting, axes),
        "distributions": _distributions(axes),
    }
    if trial.valid:
        return [create_trial(value=trial.valid.return_s, **where)]
    if trial.stopped_s is not None:
        reported = {0: trial.stopped_s}
        return [create_trial(state=TrialState.PRUNED, intermediate_values=reported, **where)]
    return []


def _named(setting: Setting) -> dict[str, int]:
    """What a setting names, by knob; numbers as numbers."""
    return {**setting.values, **dict(setting.transfer)}


def _axes(candidates: Sequence[Setting]) -> dict[str, tuple[int, ...]]:
    """The values of each knob in which candidates differ, in order."""
    named = [_named(setting) for setting in candidates]
    names = dict.fromkeys(name for values in named for name in values)
    axes = {name: tuple(sorted({v[name] for v in named if name in v})) for name in names}
    return {name: values for name, values in axes.items() if len(values) > 1}


def coordinates(setting: Setting, axes: Mapping[str, Sequence[int]]) -> Coordinates:
    """Return where a setting lies on the axes."""
    named = _named(setting)
    return tuple((name, named[name]) for name in axes)


def _distributions(axes: Mapping[str, Sequence[int]]) -> dict[str, BaseDistribution]:
    from optuna.distributions import IntDistribution

    return {name: IntDistribution(0, len(values) - 1) for name, values in axes.items()}


def _parameters(setting: Setting, axes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {n: list(axes[n]).index(value) for n, value in coordinates(setting, axes)}


def _of_parameters(parameters: Mapping[str, Any], axes: Mapping[str, Sequence[int]]) -> Coordinates:
    return tuple((name, values[parameters[name]]) for name, values in axes.items())
