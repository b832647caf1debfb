"""What repeated measurements say: the centre and the spread of the present settings.

Thin on purpose: two or three repeats give a range, not an interval.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Repeats:
    """Median, smallest and largest of repeated measurements, in the unit of the measurements."""

    median: float
    smallest: float
    largest: float
    count: int

    @property
    def spread(self) -> float:
        """Largest less smallest."""
        return self.largest - self.smallest

    @property
    def relative_spread(self) -> float:
        """The spread as a part of the median."""
        return self.spread / self.median if self.median else 0.0


def summarize(values: Sequence[float]) -> Repeats:
    """Summarize one measurement or more. Raises ValueError without any."""
    if not values:
        raise ValueError("no measurement to summarize")
    return Repeats(statistics.median(values), min(values), max(values), len(values))
