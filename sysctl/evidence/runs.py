# SPDX-License-Identifier: Apache-2.0
"""The trials of a sweep at one moment: immutable and indexed once for all readers.

A step of a sweep, an advice and a prediction each begin with `Runs.of` and pass it on. It never
changes, so values are calculated at the first use and cached.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from contracts.causes import Cause
from sysctl.evidence.baseline import Baseline
from sysctl.evidence.circumstances import Circumstances
from sysctl.evidence.price_seen import PriceSeen
from sysctl.evidence.results import (
    CANDIDATE,
    PRESENT,
    PRICE,
    RECHECK,
    Observation,
    Results,
    Trial,
    grouped,
)
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import Thresholds, effective_thresholds

#: If writers wait for a CPU for this much more of their time than in the median run of the same
#: setting, other programs slow them down.
CPU_WAIT_SLACK = 0.05


@dataclass(frozen=True)
class Runs:
    """The trials in the order in which they ran, and the circumstances of the sweep."""

    circumstances: Circumstances
    trials: tuple[Trial, ...]

    @staticmethod
    def of(results: Results) -> Runs:
        """Return the runs of the results as they are now."""
        return Runs(results.circumstances, tuple(results.trials))

    def where(self, keep: Callable[[Trial], bool]) -> Runs:
        """Return the runs with only the trials that `keep` accepts."""
        return replace(self, trials=tuple(filter(keep, self.trials)))

    def first(self, count: int) -> Runs:
        """Return the runs with only the first `count` trials."""
        return replace(self, trials=self.trials[:count])

    @cached_property
    def search(self) -> Runs:
        """The runs as they were when the search ended: later runs must not change its end."""
        return self.where(lambda trial: trial.pair is None and trial.role in (PRESENT, CANDIDATE))

    @cached_property
    def baseline(self) -> Baseline:
        """The current settings."""
        setting = next((trial.setting for trial in self.of_role(PRESENT)), Setting(()))
        return Baseline(setting, self.circumstances.node_class.mount_words)

    def of_role(self, role: str) -> Sequence[Trial]:
        """Return the trials of one role."""
        return self._by_role.get(role, ())

    @cached_property
    def _by_role(self) -> Mapping[str, Sequence[Trial]]:
        return grouped((trial.role, trial) for trial in self.trials)

    def of_setting(self, setting: Setting) -> Sequence[Trial]:
        """Return the trials of one setting."""
        return self._by_setting.get(setting, ())

    @cached_property
    def _by_setting(self) -> Mapping[Setting, Sequence[Trial]]:
        return grouped((trial.setting, trial) for trial in self.trials)

    @cached_property
    def valid_by_setting(self) -> Mapping[Setting, Sequence[Observation]]:
        """The valid observations by setting; only settings that have one."""
        return grouped((trial.setting, trial.valid) for trial in self.trials if trial.valid)

    @cached_property
    def valid_present(self) -> Sequence[Observation]:
        """The valid runs of the current settings, without those for a price."""
        return [trial.valid for trial in self.of_role(PRESENT) if trial.valid]

    @cached_property
    def present_alone_s(self) -> Sequence[float]:
        """The times to return (s) of the valid current runs outside blocks."""
        alone = (trial.valid for trial in self.of_role(PRESENT) if trial.pair is None)
        return [run.return_s for run in alone if run]

    @cached_property
    def candidates_s(self) -> Mapping[Setting, float]:
        """The times to return (s) of the valid candidates."""
        tried = ((trial.setting, trial.valid) for trial in self.of_role(CANDIDATE))
        return {setting: run.return_s for setting, run in tried if run}

    @cached_property
    def timed_s(self) -> Mapping[Setting, Sequence[float]]:
        """The times to return (s) of all valid runs by setting, without those for a price."""
        timed = (trial for trial in self.trials if trial.role != PRICE)
        return grouped((trial.setting, trial.valid.return_s) for trial in timed if trial.valid)

    @cached_property
    def rechecked(self) -> Sequence[Setting]:
        """The settings, other than the current ones, that ran in blocks."""
        return list(dict.fromkeys(trial.setting for trial in self.of_role(RECHECK)))

    @cached_property
    def blocks(self) -> Mapping[int, Mapping[Setting, Observation]]:
        """The comparable runs by the number of their block and by setting."""
        blocks: dict[int, dict[Setting, Observation]] = {}
        for trial in self.trials:
            if trial.pair is not None and trial.valid and not self.is_starved(trial):
                blocks.setdefault(trial.pair, {})[trial.setting] = trial.valid
        return blocks

    def times_s(self, setting: Setting, *, is_paired: bool = False) -> list[float]:
        """Return the times to return (s) of a setting's comparable runs."""
        return [
            trial.valid.return_s
            for trial in self.of_setting(setting)
            if trial.valid and trial.role != PRICE and not self.is_starved(trial)
            if not is_paired or trial.pair is not None
        ]

    @cached_property
    def dirtyable_bytes(self) -> int:
        """The dirtyable memory during the measurements: the runs' median.

        Before the first run it was more, because the sweep's workers were not running.
        """
        valid = (trial.valid for trial in self.trials)
        known = [run.dirtyable_bytes for run in valid if run and run.dirtyable_bytes]
        return round(statistics.median(known)) if known else self.circumstances.node.dirtyable_bytes

    @cached_property
    def burst_bytes(self) -> int:
        """The bytes of one pull of the sweep; 0 if no trial is valid."""
        return next((trial.valid.bytes for trial in self.trials if trial.valid), 0)

    @cached_property
    def present_stall_share(self) -> float:
        """The largest share of writers' time in throttling under the current settings, 0 to 1."""
        runs = self.valid_by_setting.get(self.baseline.setting, ())
        return max((run.throttled_share for run in runs), default=0.0)

    @cached_property
    def seen_prices(self) -> Mapping[Setting, PriceSeen]:
        """What other programs noticed, by setting, from its last run with a neighbour."""
        valid = ((trial.setting, trial.valid) for trial in self.trials if trial.valid)
        return {setting: run.price for setting, run in valid if run.price is not None}

    def thresholds_of(self, setting: Setting) -> Thresholds:
        """Return the thresholds of a setting with the memory of the sweep."""
        return effective_thresholds(self.baseline.values_with(setting), self.dirtyable_bytes)

    def writers_of(self, run: Observation) -> int:
        """Return the number of threads that could write at a time in a run; at least 1."""
        workers = self.circumstances.node_class.workers or 1
        return max(1, min(run.writers or workers, run.objects))

    def cause_share(self, run: Observation, cause: Cause) -> float:
        """Return the share of the writers' time that write calls spent on a cause; 0 if unknown.

        The writers' time is the time to return × the threads that could write at a time.
        """
        return run.split_s.get(cause, 0.0) / (run.return_s * self.writers_of(run))

    def cpu_wait_share(self, run: Observation) -> float:
        """Return the share of the writers' time in which write calls waited for a CPU."""
        return self.cause_share(run, Cause.QUEUED)

    def is_starved(self, trial: Trial) -> bool:
        """Return whether its writers waited for a CPU unusually long.

        That is `CPU_WAIT_SLACK` more of their time than in the median run of the same setting,
        valid or not, because on a busy host every run waits. A disturbed first run is recognised
        only after later runs.
        """
        if trial.valid is None:
            return False
        usual = self._usual_cpu_wait[trial.setting]
        return self.cpu_wait_share(trial.valid) > usual + CPU_WAIT_SLACK

    @cached_property
    def _usual_cpu_wait(self) -> Mapping[Setting, float]:
        seen = ((trial.setting, trial.observation) for trial in self.trials)
        shares = grouped((setting, self.cpu_wait_share(run)) for setting, run in seen if run)
        return {setting: statistics.median_low(found) for setting, found in shares.items()}
