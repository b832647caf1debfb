"""What a sweep may cost, in trials or in time, and what is left of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.results import CANDIDATE, PRESENT, Results

#: The present settings twice, one candidate, and twice the two of them beside each other.
MIN_TRIALS = 7


@dataclass(frozen=True)
class Budget:
    """The most trials, and the most time in s, that a sweep may take; None is no limit.

    It counts all trials of the results, those before a resume too, failed ones included.
    """

    trials: int | None = None
    time_s: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.trials is not None or self.time_s is not None

    def affords(self, results: Results, roles: Sequence[str], *, syncs: int = 0) -> bool:
        """Whether runs of these roles, of which so many wait for the device, still fit."""
        if self.trials is not None and len(results.trials) + len(roles) > self.trials:
            return False
        if self.time_s is None:
            return True
        expected_s = sum(_typical_s(results, role) for role in roles) + syncs * _sync_s(results)
        return sum(trial.elapsed_s for trial in results.trials) + expected_s <= self.time_s


def _typical_s(results: Results, role: str) -> float:
    """What a run of that role takes: the median of those so far; a recheck is as a candidate."""
    kind = PRESENT if role == PRESENT else CANDIDATE
    fitting = [t.elapsed_s for t in results.of_role(kind) if not t.problem]
    return statistics.median(fitting or [t.elapsed_s for t in results.trials] or [0.0])


def _sync_s(results: Results) -> float:
    """What waiting for the device adds to a pull that returns at once."""
    durable = [t.valid.durable_s for t in results.trials if t.valid]
    return max((seconds for seconds in durable if seconds is not None), default=0.0)
