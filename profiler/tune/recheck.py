"""The recheck: the best point against boto3's defaults, in pairs that a drift meets alike.

A best of many trials is partly luck. So both sides are measured afresh, default-best, best-default
and so on (ABBA), and only the ratios within pairs count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from profiler.tune.space import Point
from profiler.tune.trial import Bench, Pull, PullOnce
from sysctl.evidence.comparison import MIN_GAIN
from sysctl.evidence.statistics import Interval, noise_floor, ratio_interval

#: From so many on the interval needs no assumption of a shape (sysctl/evidence/statistics.py).
DEFAULT_PAIRS = 6
#: So many are made whatever they take: a single ratio has no interval.
FEWEST_PAIRS = 2
#: Equal pulls that differ by more hide what the settings do.
NOISY = 0.10
#: What the recheck may take beyond them, as a part of the search's time.
SHARE_OF_BUDGET = 1.0


@dataclass(frozen=True)
class Recheck:
    """The pulls of both sides, pair by pair; `wanted` is how many pairs were to be made."""

    default: tuple[Pull, ...]
    best: tuple[Pull, ...]
    wanted: int = DEFAULT_PAIRS

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
    def is_noisy(self) -> bool:
        """Whether nothing can be told, since pulls with the same settings differ that much."""
        return self.interval.includes(1.0) and self.noise_floor > NOISY

    @property
    def is_faster(self) -> bool:
        """Whether the best is faster for certain, and by more than noise and a gain worth having.

        Two pairs at least: a single ratio has no interval.
        """
        worthwhile = 1 / (1 + max(self.noise_floor, MIN_GAIN))
        interval = self.interval
        return interval.high < 1.0 and interval.estimate < worthwhile


@dataclass
class PairedPulls:
    """The recheck as it goes on: what is measured is kept, however it ends.

    After `FEWEST_PAIRS` no pair is begun that would end later than `limit_s` after the first one,
    by the mean of those before it; `clock` is in seconds.
    """

    pairs: int = DEFAULT_PAIRS
    limit_s: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    _default: list[Pull] = field(default_factory=list, init=False)
    _best: list[Pull] = field(default_factory=list, init=False)

    def run(self, bench: Bench, default: Point, best: Point) -> None:
        """Pull in pairs with each. Raises PullError."""
        with bench.opened(default) as pull_default, bench.opened(best) as pull_best:
            began_s = self.clock()
            for number in range(self.pairs):
                if number >= FEWEST_PAIRS and self._is_over(self.clock() - began_s, number):
                    return
                sides: list[tuple[PullOnce, list[Pull]]]
                sides = [(pull_default, self._default), (pull_best, self._best)]
                for pull_once, pulls in sides[::-1] if number % 2 else sides:
                    pulls.append(pull_once(None))

    def _is_over(self, elapsed_s: float, made: int) -> bool:
        return elapsed_s * (made + 1) / made > self.limit_s

    def whole(self) -> Recheck | None:
        """The whole pairs; None without any."""
        count = min(len(self._default), len(self._best))
        if not count:
            return None
        return Recheck(tuple(self._default[:count]), tuple(self._best[:count]), self.pairs)
