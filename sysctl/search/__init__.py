"""Search strategies: which setting to try next, and which of those tried to measure in pairs.

A strategy is one file with one class that is made from candidates, and a line in `strategies.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sysctl.evidence.results import CANDIDATE, Trial
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting


class Strategy(Protocol):
    """Proposes settings from the runs so far; keeps no state, so that it can be resumed."""

    def next_setting(self, runs: Runs, pending: Sequence[Setting] = ()) -> Setting | None:
        """Return the next candidate, or None when there is nothing more to try.

        `pending` are those whose trials are under way, on other hosts: none of them is proposed
        again. None while `remaining` is not 0: what comes next depends on what they show.
        """

    def remaining(self, runs: Runs) -> int:
        """Return how many candidates are still to come, as far as is known."""

    def finalists(self, runs: Runs) -> Sequence[Setting]:
        """Return the settings to compare with the present ones in pairs, the preferred one first.

        There is none where the search found nothing that is worth it. A search that was cut short
        by a budget returns the best that it knows.
        """


def untried(candidates: Sequence[Setting], done: Sequence[Trial]) -> list[Setting]:
    """Return the candidates that no trial of the search was of, in their order."""
    tried = {trial.setting for trial in done if trial.role == CANDIDATE}
    return [setting for setting in candidates if setting not in tried]
