# SPDX-License-Identifier: Apache-2.0
"""The budget of a sweep, in trials or time, and what is left of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.evidence.results import CANDIDATE, PRESENT, Trial
from sysctl.evidence.runs import Runs

#: The current settings twice, one candidate, two pairs of both, and the price of the recommended
#: one.
MIN_TRIALS = 8


@dataclass(frozen=True)
class Budget:
    """The maximum number of trials and time (s) of a sweep; None is no limit.

    All trials of the results count, also failed ones and those before a resume.
    """

    trials: int | None = None
    time_s: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.trials is not None or self.time_s is not None

    def has_trial_left(self, runs: Runs) -> bool:
        """Return whether one more trial may run, even to repeat a failed one."""
        return self.trials is None or len(runs.trials) < self.trials

    def affords(self, runs: Runs, roles: Sequence[str], *, syncs: int = 0) -> bool:
        """Return whether runs of these roles fit, `syncs` of which wait for the device."""
        if self.trials is not None and len(runs.trials) + len(roles) > self.trials:
            return False
        if self.time_s is None:
            return True
        expected_s = sum(_typical_s(runs, role) for role in roles) + syncs * _sync_s(runs)
        return sum(trial.elapsed_s for trial in runs.trials) + expected_s <= self.time_s


def _typical_s(runs: Runs, role: str) -> float:
    """Return the median time (s) so far of runs of a role, without the wait for the device.

    A recheck takes as long as a candidate; before any candidate, as long as any run.
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
    """Return the time (s) that waiting for the device adds to a typical candidate."""
    durable = [t.valid.durable_s for t in runs.trials if t.valid]
    longest_s = max((seconds for seconds in durable if seconds is not None), default=0.0)
    return max(0.0, longest_s - _typical_s(runs, CANDIDATE))
