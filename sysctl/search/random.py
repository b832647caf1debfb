# SPDX-License-Identifier: Apache-2.0
"""Random search: some of the candidates, in a random order that depends on the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sysctl.knobs.setting import Setting
from sysctl.search.grid import Grid


def drawn(candidates: Sequence[Setting], seed: int, max_trials: int) -> Grid:
    """Return a search of at most `max_trials` candidates, drawn without replacement."""
    count = min(max_trials, len(candidates))
    return Grid(tuple(random.Random(seed).sample(candidates, count)))  # noqa: S311
