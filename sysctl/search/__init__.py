"""Search strategies: which setting to try next, and which of those tried to measure in pairs.

A strategy is one file with one class that is made from candidates, and a line in `strategies.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from sysctl.evidence.results import CANDIDATE, PRESENT, Results, Trial
from sysctl.knobs.setting import Setting


class Strategy(Protocol):
    """Proposes settings from the results so far; keeps no state, so that it can be resumed."""

    def next_setting(self, results: Results, pending: Sequence[Setting] = ()) -> Setting | None:
        """Return the next candidate, or None when there is nothing more to try.

        `pending` are those whose trials are under way, on other hosts: none of them is proposed
        again, and None may also mean that what comes next depends on what they show.
        """

    def remaining(self, results: Results) -> int:
        """Return how many candidates are still to come, as far as is known."""

    def finalists(self, results: Results) -> Sequence[Setting]:
        """Return the settings to compare with the present ones in pairs, the preferred one first.

        Empty where the search found nothing that is worth it. A search that was cut short by a
        budget returns the best that it knows.
        """


def untried(candidates: Sequence[Setting], done: Sequence[Trial]) -> list[Setting]:
    """Return the candidates that no trial of the search was of, in their order."""
    tried = {trial.setting for trial in done if trial.role == CANDIDATE}
    return [setting for setting in candidates if setting not in tried]


def searched(results: Results) -> Results:
    """Return the results as they were when the search ended: later runs must not change its end."""
    found: Results = results.derived(_searched)
    return found


def _searched(results: Results) -> Results:
    kept = [t for t in results.trials if t.pair is None and t.role in (PRESENT, CANDIDATE)]
    return replace(results, trials=kept)
