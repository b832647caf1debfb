# SPDX-License-Identifier: Apache-2.0
"""What a node of a shared study says while it works: a sentence for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from profiler.pull.measured import Phase
from profiler.pull.result import Progress
from sysctl.evidence.results import Results, Trial
from sysctl.sweep.steps import Step


@dataclass
class NodeView:
    """Implements `profiler.study.study.View`; `out` gets each sentence, but none twice in turn."""

    out: Callable[[str], None]
    _last: str = field(default="", init=False)

    def say(self, sentence: str) -> None:
        """Pass on a sentence, unless it was the last one."""
        if sentence != self._last:
            self.out(sentence)
        self._last = sentence

    def recovered(self, changes: Sequence[str], left: Sequence[str]) -> None:
        """Name what a killed run had left."""
        for change in changes:
            self.say(f"restored: {change}")
        for why in left:
            self.say(f"not restored: {why}")

    def noted(self, sentences: Sequence[str]) -> None:
        """Say how the volume's options were read."""
        for sentence in sentences:
            self.say(sentence)

    def planned(self, results: Results, trials: int) -> None:
        """Say nothing: the ledger decides how many trials there are."""

    def step(self, step: Step) -> None:
        """Name the trial that begins."""
        self.say(f"  {step.role}: {step.setting}")

    def doing(self, what: str) -> None:
        """Say nothing: a line for each phase would be too many."""

    def phase(self, phase: Phase, progress: Progress | None) -> None:
        """Say nothing."""

    def trial(self, trial: Trial) -> None:
        """Say nothing: the step was named."""
