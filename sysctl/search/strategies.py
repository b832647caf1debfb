# SPDX-License-Identifier: Apache-2.0
"""The strategies over candidates, by name. The edge search uses ladders instead (`edge.py`)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping

from contracts.shared.errors import RequirementError
from contracts.shared.installation import how_to_add
from sysctl.knobs.setting import Setting
from sysctl.search import Strategy
from sysctl.search.bayes import MAX_TRIALS, BayesSearch
from sysctl.search.grid import Grid
from sysctl.search.random import drawn

EDGE, GRID, RANDOM, BAYES, SYNE_TUNE = "edge", "grid", "random", "bayes", "syne-tune"
#: Transfer settings add four axes to the two of the thresholds.
TRIALS_WITH_TRANSFER = 24

#: Candidates and a seed → the strategy.
_Make = Callable[[tuple[Setting, ...], int], Strategy]


def _most(candidates: tuple[Setting, ...]) -> int:
    """Return the maximum number of trials: more if transfer settings are varied too."""
    is_joint = any(setting.transfer for setting in candidates)
    return TRIALS_WITH_TRANSFER if is_joint else MAX_TRIALS


def _bayes_by(name: str, module: str, package: str, library: str) -> _Make:
    """Return a Bayesian search with the model in `module`, from a library of the extra `name`."""

    def make(candidates: tuple[Setting, ...], seed: int) -> Strategy:
        if importlib.util.find_spec(package) is None:
            raise RequirementError(
                f"the strategy {name} needs {library}, which is not installed",
                f"install it with `{how_to_add(name)}`, or use the strategy grid or random",
            )
        propose = importlib.import_module(module).propose
        return BayesSearch(candidates, propose, seed, _most(candidates))

    return make


_STRATEGIES: Mapping[str, _Make] = {
    GRID: lambda candidates, seed: Grid(candidates),
    RANDOM: lambda candidates, seed: drawn(candidates, seed, _most(candidates)),
    BAYES: _bayes_by(BAYES, "sysctl.search.tpe", "optuna", "Optuna"),
    SYNE_TUNE: _bayes_by(SYNE_TUNE, "sysctl.search.bore", "syne_tune", "Syne Tune"),
}
NAMES = (EDGE, *_STRATEGIES)


def make_strategy(name: str, candidates: tuple[Setting, ...], seed: int) -> Strategy:
    """Return the strategy `name` (one of `NAMES`, not `EDGE`) over candidates.

    Raises RequirementError if it needs a package that is not installed.
    """
    return _STRATEGIES[name](candidates, seed)
