"""Search strategies: which setting to try next.

A strategy is one file with one class that is made from candidates, and a line in `strategies.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sysctl.results import Trial
from sysctl.setting import Setting


class Strategy(Protocol):
    """Proposes settings from what was tried so far; keeps no state, so that it can be resumed."""

    def next_setting(self, done: Sequence[Trial]) -> Setting | None:
        """The next candidate, or None when there is nothing more to try."""

    def remaining(self, done: Sequence[Trial]) -> int:
        """How many candidates are still to come, as far as is known."""
