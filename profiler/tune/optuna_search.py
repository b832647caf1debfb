"""Bayesian search by Optuna: TPE over all axes together, asked and told one point at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.tune.space import Axis, Point, Range

#: Points before TPE has a say; its own default of 10 is half of what 125 s afford.
STARTUP_TRIALS = 5


class OptunaSearch:
    """TPE that models the axes jointly: queue and chunk size matter by their product.

    A point whose time is not known is told as failed, so that TPE leaves it out of its model.
    """

    def __init__(self, axes: Sequence[Axis], first: Sequence[Point], seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True
        )
        self._study = optuna.create_study(sampler=sampler)
        self._distributions = {axis.name: _distribution(axis) for axis in axes}
        for point in first:
            self._study.enqueue_trial(dict(point))
        self._asked: Any = None

    def ask(self) -> Point:
        """See Strategy."""
        self._asked = self._study.ask(self._distributions)
        return dict(self._asked.params)

    def tell(self, point: Point, seconds: float | None) -> None:
        """See Strategy."""
        from optuna.trial import TrialState

        if seconds is None:
            self._study.tell(self._asked, state=TrialState.FAIL)
        else:
            self._study.tell(self._asked, seconds)


def _distribution(axis: Axis) -> Any:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    if isinstance(axis, Range):
        return IntDistribution(axis.low, axis.high, log=True)
    return CategoricalDistribution(axis.values)


def make(axes: Sequence[Axis], first: Sequence[Point], seed: int) -> OptunaSearch:
    """See `strategies.Kind`."""
    return OptunaSearch(axes, first, seed)
