"""A bench whose times are a function of the point, on a clock of its own: no pull, no sleep."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from profiler.pull.errors import PullStoppedError
from profiler.pull.settings import TransferSettings
from profiler.tune.budget import Budget
from profiler.tune.limits import Load
from profiler.tune.space import POST_AXES, Axis, Point
from profiler.tune.strategies import make_strategy
from profiler.tune.trial import Pull, PullOnce, TrialRunner
from profiler.tune.tuner import Tuner, first_points

BYTES = 3 * 2**30
#: One object, so one worker.
LOAD = Load({BYTES: 1}, workers=1)


@dataclass
class FakeBench:
    """`seconds(point, pull number)` is what a pull takes; opening takes `opening_s`."""

    seconds: Callable[[Point, int], float]
    opening_s: float = 0.5
    busy_share: float = 0.5
    cpu_share: float = 0.5
    now_s: float = 1000.0
    pulled: list[Point] = field(default_factory=list)

    def clock(self) -> float:
        return self.now_s

    @contextlib.contextmanager
    def opened(self, point: Point) -> Iterator[PullOnce]:
        self.now_s += self.opening_s

        def pull_once(stop_after_s: float | None) -> Pull:
            seconds = self.seconds(point, len(self.pulled))
            self.pulled.append(point)
            if stop_after_s is not None and seconds > stop_after_s:
                self.now_s += stop_after_s
                raise PullStoppedError(stop_after_s)
            self.now_s += seconds
            return Pull(seconds, BYTES, seconds * self.cpu_share, self.busy_share)

        yield pull_once


class Listed:
    """A strategy that proposes what it is given, and remembers what it is told."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points, self.told = list(points), []

    def ask(self) -> Point:
        return self.points.pop(0)

    def tell(self, point: Point, seconds: float | None) -> None:
        self.told.append(seconds)


def tuner(bench: FakeBench, strategy: object = "random", **options: object) -> Tuner:
    axes: Sequence[Axis] = POST_AXES
    if isinstance(strategy, str):
        strategy = make_strategy(strategy, axes, first_points(TransferSettings(), axes), 1)
    return Tuner(
        runner=TrialRunner(bench, options.pop("pulls", 3), bench.clock),
        strategy=strategy,
        budget=options.pop("budget", Budget()),
        base=options.pop("base", TransferSettings()),
        load=LOAD,
        **options,
    )
