"""The strategies over candidates, by name. The edge search has ladders instead (`edge.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sysctl.knobs.setting import Setting
from sysctl.search import Strategy
from sysctl.search.bayes import MAX_TRIALS, BayesSearch
from sysctl.search.grid import Grid
from sysctl.search.random import drawn

EDGE, GRID, RANDOM, BAYES = "edge", "grid", "random", "bayes"
#: Four axes more than the two of the thresholds.
TRIALS_WITH_TRANSFER = 24

#: Candidates and a seed → the strategy.
_Make = Callable[[tuple[Setting, ...], int], Strategy]


def _most(candidates: tuple[Setting, ...]) -> int:
    """How many of the candidates are tried: more where transfer settings are axes, too."""
    is_joint = any(setting.transfer for setting in candidates)
    return TRIALS_WITH_TRANSFER if is_joint else MAX_TRIALS


_STRATEGIES: Mapping[str, _Make] = {
    GRID: lambda candidates, seed: Grid(candidates),
    RANDOM: lambda candidates, seed: drawn(candidates, seed, _most(candidates)),
    BAYES: lambda candidates, seed: BayesSearch(candidates, seed, _most(candidates)),
}
NAMES = (EDGE, *_STRATEGIES)


def make_strategy(name: str, candidates: tuple[Setting, ...], seed: int) -> Strategy:
    """Return the strategy `name` (one of `NAMES` but `EDGE`) over candidates.

    Raises RequirementError where it needs a package that is not installed.
    """
    return _STRATEGIES[name](candidates, seed)
