"""Random search: the candidates in an order that the seed decides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.results import Results
from sysctl.search import untried
from sysctl.search.finalists import near_the_fastest
from sysctl.setting import Setting

MAX_TRIALS = 12


@dataclass(frozen=True)
class RandomSearch:
    """At most `max_trials` of the candidates, drawn without putting back; the same for a seed."""

    candidates: tuple[Setting, ...]
    seed: int = 0
    max_trials: int = MAX_TRIALS

    def next_setting(self, results: Results) -> Setting | None:
        """See `Strategy`."""
        return next(iter(untried(self._drawn, results.trials)), None)

    def remaining(self, results: Results) -> int:
        """See `Strategy`."""
        return len(untried(self._drawn, results.trials))

    def finalists(self, results: Results) -> Sequence[Setting]:
        """See `Strategy`."""
        return near_the_fastest(results)

    @property
    def _drawn(self) -> list[Setting]:
        count = min(self.max_trials, len(self.candidates))
        return random.Random(self.seed).sample(self.candidates, count)  # noqa: S311
