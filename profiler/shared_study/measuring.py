# SPDX-License-Identifier: Apache-2.0
"""Measures a claim on this node by the sweep's protocol, with the bench injected.

The node's own runs are kept for the whole time that it takes part: whether a run is comparable is
judged with the runs of the same node, as in a sweep.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contracts.shared.errors import WritewiseError
from profiler.shared_study.document import present_run
from sysctl.evidence.protocol import ATTEMPTS, abba, stop_after_s
from sysctl.evidence.results import CANDIDATE, PRESENT, PRICE, RECHECK, Results, Trial
from sysctl.evidence.runs import Runs
from sysctl.fleet.claims import Claim, ClaimKind
from sysctl.knobs.setting import Setting
from sysctl.sweep.steps import Bench, Step, run_trial

#: A block has the order AB and BA.
PAIRS_OF_BLOCK = 2


@dataclass
class NodeMeasure:
    """Measures claims with a bench; `results` are this node's runs so far.

    `restore` puts the node back as it was; it is called after every claim, so that a node that
    waits for the ledger runs with its own settings.
    """

    results: Results
    present: Setting
    bench: Bench
    restore: Callable[[], object]
    on_step: Callable[[Step], None] = lambda step: None
    clock_s: Callable[[], float] = time.monotonic

    def __call__(self, claim: Claim) -> tuple[Trial, ...]:
        """Return the trials of the claim, failed attempts too, after the node's present run.

        Raises WritewiseError if no valid run of the current settings succeeds, or no trial can.
        """
        try:
            self._measure_present()
            begun = len(self.results.trials)
            for step in self._steps(claim):
                self._run(step)
            known = present_run(self.results.trials)
            return (*([known] if known else []), *self.results.trials[begun:])
        finally:
            self.restore()

    def _measure_present(self) -> None:
        """Measure the current settings once durably, which warms up, then once to compare with."""
        if present_run(self.results.trials) is not None:
            return
        self._run(Step(PRICE, self.present, durable=True, remaining=0))
        trial = self._run(Step(PRESENT, self.present, durable=False, remaining=0))
        if trial.problem:
            raise WritewiseError(
                f"no valid pull under the current settings in {ATTEMPTS} attempts: {trial.problem}",
                "fix the cause, or wait until the node is quieter, and join again",
            )

    def _steps(self, claim: Claim) -> Iterator[Step]:
        if claim.kind is ClaimKind.SEARCH:
            setting = claim.settings[0]
            able = {trial.setting for trial in self.results.trials}
            limit_s = stop_after_s(Runs.of(self.results), able)
            yield Step(CANDIDATE, setting, durable=False, remaining=0, stop_after_s=limit_s)
            return
        order = [self.present, *claim.settings]
        random.Random(claim.key).shuffle(order)  # noqa: S311
        first = self._first_pair()
        for pair in range(PAIRS_OF_BLOCK):
            for setting in abba(order, pair):
                role = PRESENT if setting == self.present else RECHECK
                yield Step(role, setting, durable=False, remaining=0, pair=first + pair)

    def _first_pair(self) -> int:
        return max((t.pair for t in self.results.trials if t.pair is not None), default=-1) + 1

    def _run(self, step: Step) -> Trial:
        """Run a step until it is valid or was stopped, at most `ATTEMPTS` times."""
        for _ in range(ATTEMPTS):
            self.on_step(step)
            trial = run_trial(self.bench, step, self.results, self.clock_s)
            self.results.trials.append(trial)
            if not trial.problem:
                return trial
        self.bench.require_destination()
        return trial
