# SPDX-License-Identifier: Apache-2.0
"""Search strategies: which setting to try next, and which settings to measure in pairs.

A strategy is a class in a file of its own, made from candidates, and a line in `strategies.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sysctl.evidence.results import CANDIDATE, Trial
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting


class Strategy(Protocol):
    """Proposes settings from the runs so far. It has no state, so a search can be resumed."""

    def next_setting(self, runs: Runs, pending: Sequence[Setting] = ()) -> Setting | None:
        """Return the next candidate, or None if there is nothing to try now.

        `pending` are settings whose trials are running on other hosts, in any role; they are not
        proposed again. None while `remaining` is not 0 means that the next candidate depends on
        their results.
        """

    def remaining(self, runs: Runs) -> int:
        """Return the expected number of candidates still to try."""

    def finalists(self, runs: Runs) -> Sequence[Setting]:
        """Return the settings to compare with the current ones in pairs, the preferred one first.

        There are none if the search found nothing worth it. A search that the budget ended early
        returns its best so far.
        """


def untried(candidates: Sequence[Setting], done: Sequence[Trial]) -> list[Setting]:
    """Return the candidates that the search has not tried, in their order."""
    tried = {trial.setting for trial in done if trial.role == CANDIDATE}
    return [setting for setting in candidates if setting not in tried]
