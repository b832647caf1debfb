"""What a search may cost: wall-clock time, trials, and trials without improvement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.shared.units import counted, format_seconds
from profiler.tune.trial import State, Trial

#: A trial improves on the best by at least this part; less is noise.
MIN_IMPROVEMENT = 0.01
#: So many failed trials in a row end a search.
MAX_FAILED = 3


@dataclass(frozen=True)
class Budget:
    """The search ends at the first of these; None is no limit of that kind.

    `patience` is the number of trials in a row that do not improve on the best one. The recheck
    comes after the search and is not part of it.
    """

    seconds: float = 125.0
    trials: int | None = None
    patience: int | None = None

    def used_up(self, trials: Sequence[Trial], elapsed_s: float) -> str:
        """Why the search ends, or nothing when it goes on."""
        if elapsed_s >= self.seconds:
            return f"its {format_seconds(self.seconds)} are over"
        if self.trials is not None and len(trials) >= self.trials:
            return f"no more than {counted(self.trials, 'trial')} were to be made"
        if self.patience is not None and since_improvement(trials) >= self.patience:
            return f"{counted(self.patience, 'trial')} in a row brought nothing"
        return ""


def failing(trials: Sequence[Trial]) -> str:
    """That the last trials failed, and why: not for their points then; nothing when they did not.

    Credentials expire, or the volume is full: what is still to come would fail as they did.
    """
    last = trials[-MAX_FAILED:]
    if len(last) < MAX_FAILED or any(trial.state is not State.FAILED for trial in last):
        return ""
    return f"its last {MAX_FAILED} trials failed ({last[-1].problem})"


def since_improvement(trials: Sequence[Trial]) -> int:
    """How many trials were made since the last that was better than all before it."""
    best_s, since = float("inf"), 0
    for trial in trials:
        since += 1
        if trial.mean_s is not None and trial.mean_s < best_s * (1 - MIN_IMPROVEMENT):
            best_s, since = trial.mean_s, 0
    return since
