"""Random search: the candidates in an order that the seed decides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.results import Trial
from sysctl.search.grid import untried
from sysctl.setting import Setting

MAX_TRIALS = 12


@dataclass(frozen=True)
class RandomSearch:
    """At most `max_trials` of the candidates, drawn without putting back; the same for a seed."""

    candidates: tuple[Setting, ...]
    seed: int = 0
    max_trials: int = MAX_TRIALS

    def next_setting(self, done: Sequence[Trial]) -> Setting | None:
        """The first of those drawn that was not tried."""
        return next(iter(untried(self._drawn, done)), None)

    def remaining(self, done: Sequence[Trial]) -> int:
        """How many of those drawn were not tried."""
        return len(untried(self._drawn, done))

    @property
    def _drawn(self) -> list[Setting]:
        count = min(self.max_trials, len(self.candidates))
        return random.Random(self.seed).sample(self.candidates, count)  # noqa: S311
