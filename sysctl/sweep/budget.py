"""What a sweep may cost, in trials or in time, and what is left of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.evidence.results import CANDIDATE, PRESENT, Trial
from sysctl.evidence.runs import Runs

#: The present settings twice, one candidate, twice the two of them beside each other, and what the
#: one that is recommended costs.
MIN_TRIALS = 8


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

    def has_trial_left(self, runs: Runs) -> bool:
        """Whether one more trial may run at all, also of those that repeat a failed one."""
        return self.trials is None or len(runs.trials) < self.trials

    def affords(self, runs: Runs, roles: Sequence[str], *, syncs: int = 0) -> bool:
        """Whether runs of these roles, of which so many wait for the device, still fit."""
        if self.trials is not None and len(runs.trials) + len(roles) > self.trials:
            return False
        if self.time_s is None:
            return True
        expected_s = sum(_typical_s(runs, role) for role in roles) + syncs * _sync_s(runs)
        return sum(trial.elapsed_s for trial in runs.trials) + expected_s <= self.time_s


def _typical_s(runs: Runs, role: str) -> float:
    """What a run of that role takes that does not wait for the device: the median so far.

    A recheck takes what a candidate took; before any candidate, what the present settings took.
    """
    kind = PRESENT if role == PRESENT else CANDIDATE
    fitting = [t for t in runs.of_role(kind) if not t.problem] or runs.trials
    return statistics.median(map(_without_sync_s, fitting)) if fitting else 0.0


def _without_sync_s(trial: Trial) -> float:
    seen = trial.observation
    if seen is None or seen.durable_s is None:
        return trial.elapsed_s
    return trial.elapsed_s - (seen.durable_s - seen.return_s)


def _sync_s(runs: Runs) -> float:
    """What waiting for the device adds to a typical candidate."""
    durable = [t.valid.durable_s for t in runs.trials if t.valid]
    longest_s = max((seconds for seconds in durable if seconds is not None), default=0.0)
    return max(0.0, longest_s - _typical_s(runs, CANDIDATE))
