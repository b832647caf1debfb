"""The trial function: the mean time of a few pulls at one point, and when it is not worth it.

The same for every strategy, which is what makes them comparable.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from profiler.pull.errors import PullError, PullStoppedError
from profiler.tune.space import Point

#: As many pulls as the post's sample makes the mean of.
DEFAULT_PULLS = 3
#: A pull that takes longer than the best mean by this factor is not repeated, ...
NOT_REPEATED = 1.5
#: ... and one that takes so much longer is stopped: a poor point may take minutes.
STOPPED = 2.5


class State(Enum):
    """How a trial ended."""

    COMPLETE = "complete"
    #: So much slower than the best that it was given up; its time is a lower bound.
    SLOWER = "slower"
    #: The search's time was over before the trial was.
    CUT = "cut"
    #: A pull failed.
    FAILED = "failed"
    #: It might need more memory than there is.
    NOT_TRIED = "not tried"


class NotTriedError(PullError):
    """Nothing was pulled at a point, for a reason that lies in it alone."""


@dataclass(frozen=True)
class Pull:
    """One pull: its time and size, the CPU time of all workers, the share of the CPUs' time.

    `busy_share` is of the whole host: 1 when no CPU was idle.
    """

    seconds: float
    bytes: int
    cpu_s: float
    busy_share: float


#: Pulls once; stops after so many seconds (None: never), then raising PullStoppedError.
PullOnce = Callable[["float | None"], Pull]


class Bench(Protocol):
    """What pulls."""

    def opened(self, point: Point) -> AbstractContextManager[PullOnce]:
        """Workers with the settings of a point, for as long as the context lasts.

        Entering and pulling raise PullError, entering NotTriedError too.
        """


@dataclass(frozen=True)
class Trial:
    """A point and what was measured there.

    `ended_s` is when, in seconds since the search began. `told_s` is what a strategy learns: the
    mean, for a slower one what it took at least, None when nothing was learnt.
    """

    number: int
    point: Point
    state: State
    ended_s: float
    pulls: tuple[Pull, ...] = ()
    told_s: float | None = None
    problem: str = field(default="", compare=False)

    @property
    def mean_s(self) -> float | None:
        """The mean time of its pulls in seconds; None unless it is complete."""
        if self.state is not State.COMPLETE:
            return None
        return statistics.fmean(pull.seconds for pull in self.pulls)

    @property
    def rate_bytes_per_s(self) -> float | None:
        """Bytes by mean time; None unless it is complete."""
        return None if self.mean_s is None else self.pulls[0].bytes / self.mean_s


@dataclass
class TrialRunner:
    """Makes trials on a bench; `clock` is in seconds, and stood at `began_s` when all began."""

    bench: Bench
    pulls: int = DEFAULT_PULLS
    clock: Callable[[], float] = time.monotonic
    began_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Remember the beginning."""
        self.began_s = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.began_s

    def run(self, number: int, point: Point, best_s: float | None, until_s: float) -> Trial:
        """One trial, over at `until_s` at the latest; `best_s` is the best mean so far.

        Without a best one nothing is given up, and what fails raises PullError: it is not the
        point's fault then.
        """
        pulls: list[Pull] = []
        limit_s = float("inf") if best_s is None else best_s * STOPPED
        left_s = until_s
        try:
            with self.bench.opened(point) as pull_once:
                while len(pulls) < self.pulls:
                    left_s = until_s - self.elapsed_s
                    if left_s <= 0:
                        return Trial(number, point, State.CUT, self.elapsed_s, tuple(pulls))
                    pulls.append(pull_once(min(limit_s, left_s)))
                    if best_s is not None and pulls[-1].seconds > best_s * NOT_REPEATED:
                        told_s = statistics.fmean(pull.seconds for pull in pulls)
                        return self._ended(number, point, State.SLOWER, pulls, told_s)
        except PullStoppedError:
            if left_s < limit_s:
                return self._ended(number, point, State.CUT, pulls, None)
            return self._ended(number, point, State.SLOWER, pulls, limit_s)
        except PullError as error:
            if best_s is None:
                raise
            state = State.NOT_TRIED if isinstance(error, NotTriedError) else State.FAILED
            failed = self._ended(number, point, state, pulls, limit_s)
            return replace(failed, problem=error.message)
        mean_s = statistics.fmean(pull.seconds for pull in pulls)
        return self._ended(number, point, State.COMPLETE, pulls, mean_s)

    def _ended(
        self, number: int, point: Point, state: State, pulls: list[Pull], told_s: float | None
    ) -> Trial:
        return Trial(number, point, state, self.elapsed_s, tuple(pulls), told_s)
