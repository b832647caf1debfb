"""The recheck: the best point against boto3's defaults, in pairs that a drift meets alike.

A best of many trials is partly luck. So both sides are measured afresh, default-best, best-default
and so on (ABBA), and only the ratios within pairs count.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.tune.space import Point
from profiler.tune.trial import Bench, Pull, PullOnce
from sysctl.choice import MIN_GAIN
from sysctl.statistics import Interval, noise_floor, ratio_interval

#: From so many on the interval needs no assumption of a shape (sysctl/statistics.py).
DEFAULT_PAIRS = 6


@dataclass(frozen=True)
class Recheck:
    """The pulls of both sides, pair by pair."""

    default: tuple[Pull, ...]
    best: tuple[Pull, ...]

    @property
    def interval(self) -> Interval:
        """Time of the best by time of the defaults: 0.6 is 40 % less time."""
        pairs = zip(self.best, self.default)
        return ratio_interval([best.seconds / default.seconds for best, default in pairs])

    @property
    def noise_floor(self) -> float:
        """By how much two pulls with the defaults typically differ, as a part."""
        return noise_floor([pull.seconds for pull in self.default])

    @property
    def is_faster(self) -> bool:
        """Whether the best is faster for certain, and by more than noise and a gain worth having.

        Two pairs at least: a single ratio has no interval.
        """
        worthwhile = 1 / (1 + max(self.noise_floor, MIN_GAIN))
        interval = self.interval
        return interval.high < 1.0 and interval.estimate < worthwhile


def recheck(bench: Bench, default: Point, best: Point, pairs: int = DEFAULT_PAIRS) -> Recheck:
    """Pull `pairs` times with each. Raises PullError."""
    defaults: list[Pull] = []
    bests: list[Pull] = []
    with bench.opened(default) as pull_default, bench.opened(best) as pull_best:
        for number in range(pairs):
            sides: list[tuple[PullOnce, list[Pull]]]
            sides = [(pull_default, defaults), (pull_best, bests)]
            for pull_once, pulls in sides[::-1] if number % 2 else sides:
                pulls.append(pull_once(None))
    return Recheck(tuple(defaults), tuple(bests))
