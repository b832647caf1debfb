"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sysctl.search import Strategy
from sysctl.search.bayes import MAX_TRIALS, BayesSearch
from sysctl.search.grid import Grid
from sysctl.search.random import RandomSearch
from sysctl.setting import Setting

MODEL, GRID, RANDOM, BAYES = "model", "grid", "random", "bayes"
#: Four axes more than the two of the thresholds.
TRIALS_WITH_TRANSFER = 24

#: Candidates, the context of the results and a seed → the strategy.
_Make = Callable[[tuple[Setting, ...], Mapping[str, Any], int], Strategy]


def _model(candidates: tuple[Setting, ...], context: Mapping[str, Any], seed: int) -> Strategy:
    from sysctl.search.model import ModelSearch

    return ModelSearch(candidates, context)


def _most(candidates: tuple[Setting, ...]) -> int:
    """How many of the candidates are tried: more where transfer settings are axes, too."""
    is_joint = any(setting.transfer for setting in candidates)
    return TRIALS_WITH_TRANSFER if is_joint else MAX_TRIALS


_STRATEGIES: Mapping[str, _Make] = {
    MODEL: _model,
    GRID: lambda candidates, context, seed: Grid(candidates),
    RANDOM: lambda candidates, context, seed: RandomSearch(candidates, seed, _most(candidates)),
    BAYES: lambda candidates, context, seed: BayesSearch(candidates, seed, _most(candidates)),
}
NAMES = tuple(_STRATEGIES)


def make_strategy(
    name: str, candidates: tuple[Setting, ...], context: Mapping[str, Any], seed: int
) -> Strategy:
    """The strategy `name` (one of `NAMES`) over candidates.

    Raises RequirementError where it needs a package that is not installed.
    """
    return _STRATEGIES[name](candidates, context, seed)
