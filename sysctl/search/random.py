"""Random search: some of the candidates, in an order that the seed decides."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sysctl.knobs.setting import Setting
from sysctl.search.grid import Grid


def drawn(candidates: Sequence[Setting], seed: int, max_trials: int) -> Grid:
    """At most `max_trials` of the candidates, drawn without putting back; the same for a seed."""
    count = min(max_trials, len(candidates))
    return Grid(tuple(random.Random(seed).sample(candidates, count)))  # noqa: S311
