"""Random search: what others must beat. Numbers are drawn evenly by their logarithm."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from profiler.tune.space import Axis, Point, Range, Value


class RandomSearch:
    """Draws every point independently; the same points for a seed."""

    def __init__(self, axes: Sequence[Axis], first: Sequence[Point], seed: int) -> None:
        self._axes, self._first = tuple(axes), list(first)
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def ask(self) -> Point:
        """See Strategy."""
        if self._first:
            return self._first.pop(0)
        return {axis.name: self._draw(axis) for axis in self._axes}

    def tell(self, point: Point, seconds: float | None) -> None:
        """See Strategy; it learns nothing."""

    def _draw(self, axis: Axis) -> Value:
        if isinstance(axis, Range):
            drawn = math.exp(self._random.uniform(math.log(axis.low), math.log(axis.high)))
            return min(max(round(drawn), axis.low), axis.high)
        return self._random.choice(axis.values)


def make(axes: Sequence[Axis], first: Sequence[Point], seed: int) -> RandomSearch:
    """See `strategies.Kind`."""
    return RandomSearch(axes, first, seed)
