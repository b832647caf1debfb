"""The strategies of a search, by name: an explicit tuple, one module each."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from contracts.shared.errors import RequirementError, UsageError
from contracts.shared.installation import how_to_add
from contracts.shared.text import quoted
from profiler.tune.space import Axis, Point


class Strategy(Protocol):
    """Proposes points, and is told what they took."""

    def ask(self) -> Point:
        """The next point to try; the points it was given come first, in their order."""

    def tell(self, point: Point, seconds: float | None) -> None:
        """What the point asked for last took; None when that is not known."""


@dataclass(frozen=True)
class Kind:
    """A strategy: its module has `make(axes, first, seed) -> Strategy`.

    `needs` is the package that it needs, and `extra` what to install it as.
    """

    name: str
    module: str
    needs: str = ""
    extra: str = ""

    @property
    def is_here(self) -> bool:
        """Whether what it needs is installed."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None


OPTUNA = Kind("optuna", "profiler.tune.optuna_search", "optuna", "bayes")
SYNE_TUNE = Kind("syne-tune", "profiler.tune.syne_tune_search", "syne_tune", "syne-tune")
RANDOM = Kind("random", "profiler.tune.random_search")
ALL = (OPTUNA, SYNE_TUNE, RANDOM)
NAMES = tuple(kind.name for kind in ALL)


def make_strategy(
    name: str, axes: Sequence[Axis], first: Sequence[Point], seed: int = 0
) -> Strategy:
    """The strategy of that name over these axes; `first` are the points it begins with.

    Raises UsageError for an unknown name, RequirementError for what is not installed.
    """
    kind = next((kind for kind in ALL if kind.name == name), None)
    if kind is None:
        raise UsageError(f"{quoted(name)} is no strategy", f"use one of {', '.join(NAMES)}")
    if not kind.is_here:
        raise RequirementError(
            f"the strategy {name} needs {kind.needs}, which is not installed",
            f"install it with `{how_to_add(kind.extra)}`; the strategy random needs nothing",
        )
    strategy: Strategy = importlib.import_module(kind.module).make(axes, first, seed)
    return strategy


def present_strategy() -> str:
    """The best strategy that is installed."""
    return OPTUNA.name if OPTUNA.is_here else RANDOM.name
