"""Bayesian search by Syne Tune, AWS's library, in its present interface (0.16).

The post's `FIFOScheduler(searcher="bayesopt")` is gone from it. BORE, one of its Bayesian
optimizers, needs nothing beyond the package (BOTorch would need PyTorch). Asked and told through
`AskTellScheduler`, so that the trial function is the very one of the other strategies. It declares
Python 3.8 and needs 3.10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contracts.shared.errors import RequirementError
from profiler.tune.space import Axis, Point, Range, Value

_METRIC = "download_time"


class SyneTuneSearch:
    """BORE over the axes. What is not known is not told, so that its model leaves it out.

    Raises RequirementError where the installed Syne Tune is another than this one was written for.
    """

    def __init__(self, axes: Sequence[Axis], first: Sequence[Point], seed: int) -> None:
        import numpy

        try:
            from syne_tune.config_space import choice, lograndint
            from syne_tune.optimizer.baselines import BORE
            from syne_tune.optimizer.schedulers.ask_tell_scheduler import AskTellScheduler
        except (ImportError, TypeError) as error:  # TypeError: its annotations on Python 3.9
            raise RequirementError(
                f"the installed Syne Tune cannot be used: {error}",
                "use Python 3.10 or newer and syne-tune 0.16, or --strategy optuna",
            ) from error
        space = {
            axis.name: lograndint(axis.low, axis.high)
            if isinstance(axis, Range)
            else choice(list(axis.values))
            for axis in axes
        }
        points = [dict(point) for point in first]
        numpy.random.seed(seed)  # BORE draws from its state, too
        base = BORE(space, metric=_METRIC, random_seed=seed, points_to_evaluate=points)
        self._scheduler = AskTellScheduler(base)
        self._asked: Any = None

    def ask(self) -> Point:
        """See Strategy."""
        self._asked = self._scheduler.ask()
        return {name: _plain(value) for name, value in self._asked.config.items()}

    def tell(self, point: Point, seconds: float | None) -> None:
        """See Strategy."""
        if seconds is not None:
            self._scheduler.tell(self._asked, {_METRIC: seconds})


def _plain(value: Any) -> Value:
    """Python's own str, bool or int, also of a NumPy one."""
    if isinstance(value, str):
        return str(value)
    return bool(value) if type(value).__name__ in ("bool", "bool_") else int(value)


def make(axes: Sequence[Axis], first: Sequence[Point], seed: int) -> SyneTuneSearch:
    """See `strategies.Kind`."""
    return SyneTuneSearch(axes, first, seed)
