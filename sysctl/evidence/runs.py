"""The trials of a sweep as they are at one moment: immutable, and indexed once for all who read.

A step of a sweep, an advice and a prediction each begin with `Runs.of` and hand it down. Nothing
changes in it, so what it works out at the first use holds for as long as it lives.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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

#: Writers that wait for a CPU for more of their time than this, compared with the median run of the
#: same setting, are slowed by something that is not the setting.
CPU_WAIT_SLACK = 0.05
#: `profiler.watch.causes.Cause.QUEUED`, by its name in the results.
CPU_WAIT = "waiting for a CPU"


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
        """Return some of the trials."""
        return replace(self, trials=tuple(filter(keep, self.trials)))

    def first(self, count: int) -> Runs:
        """Return the first trials: the runs as they were then."""
        return replace(self, trials=self.trials[:count])

    @cached_property
    def search(self) -> Runs:
        """The runs as they were when the search ended: later runs must not change its end."""
        return self.where(lambda trial: trial.pair is None and trial.role in (PRESENT, CANDIDATE))

    @cached_property
    def baseline(self) -> Baseline:
        """The present settings."""
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
        """The observations that count, by setting; no setting without one."""
        return grouped((trial.setting, trial.valid) for trial in self.trials if trial.valid)

    @cached_property
    def valid_present(self) -> Sequence[Observation]:
        """The valid runs of the present settings, those for a price apart."""
        return [trial.valid for trial in self.of_role(PRESENT) if trial.valid]

    @cached_property
    def present_alone_s(self) -> Sequence[float]:
        """The times to return (s) of the valid present runs that were in no block."""
        alone = (trial.valid for trial in self.of_role(PRESENT) if trial.pair is None)
        return [run.return_s for run in alone if run]

    @cached_property
    def candidates_s(self) -> Mapping[Setting, float]:
        """The times to return (s) of the valid candidates."""
        tried = ((trial.setting, trial.valid) for trial in self.of_role(CANDIDATE))
        return {setting: run.return_s for setting, run in tried if run}

    @cached_property
    def timed_s(self) -> Mapping[Setting, Sequence[float]]:
        """The times to return (s) of all valid runs but those for a price, by setting."""
        timed = (trial for trial in self.trials if trial.role != PRICE)
        return grouped((trial.setting, trial.valid.return_s) for trial in timed if trial.valid)

    @cached_property
    def rechecked(self) -> Sequence[Setting]:
        """The settings that ran in blocks with others, but for the present ones."""
        return list(dict.fromkeys(trial.setting for trial in self.of_role(RECHECK)))

    @cached_property
    def blocks(self) -> Mapping[int, Mapping[Setting, Observation]]:
        """The runs that count, by the number of their block and by setting."""
        blocks: dict[int, dict[Setting, Observation]] = {}
        for trial in self.trials:
            if trial.pair is not None and trial.valid and not self.is_starved(trial):
                blocks.setdefault(trial.pair, {})[trial.setting] = trial.valid
        return blocks

    def times_s(self, setting: Setting, *, is_paired: bool = False) -> list[float]:
        """Return the times to return (s) of a setting's runs that count in comparisons."""
        return [
            trial.valid.return_s
            for trial in self.of_setting(setting)
            if trial.valid and trial.role != PRICE and not self.is_starved(trial)
            if not is_paired or trial.pair is not None
        ]

    @cached_property
    def dirtyable_bytes(self) -> int:
        """The memory of which the ratios were shares while it was measured: the runs' median.

        Before the first run it was more: the sweep's own workers were not there yet.
        """
        valid = (trial.valid for trial in self.trials)
        known = [run.dirtyable_bytes for run in valid if run and run.dirtyable_bytes]
        return round(statistics.median(known)) if known else self.circumstances.node.dirtyable_bytes

    @cached_property
    def burst_bytes(self) -> int:
        """How much one pull of the sweep brought; 0 where no trial is valid."""
        return next((trial.valid.bytes for trial in self.trials if trial.valid), 0)

    @cached_property
    def present_stall_share(self) -> float:
        """The largest part of their time that writers slept in throttling at present; 0 to 1."""
        runs = self.valid_by_setting.get(self.baseline.setting, ())
        return max((run.throttled_share for run in runs), default=0.0)

    @cached_property
    def seen_prices(self) -> Mapping[Setting, PriceSeen]:
        """What other programs noticed, by setting: of its last run with a neighbour."""
        valid = ((trial.setting, trial.valid) for trial in self.trials if trial.valid)
        return {setting: run.price for setting, run in valid if run.price is not None}

    def thresholds_of(self, setting: Setting) -> Thresholds:
        """Return what a setting means in bytes with the memory that the sweep had."""
        return effective_thresholds(self.baseline.values_with(setting), self.dirtyable_bytes)

    def writers_of(self, run: Observation) -> int:
        """Return how many threads could write at a time in a run; at least 1."""
        workers = self.circumstances.node_class.workers or 1
        return max(1, min(run.writers or workers, run.objects))

    def cause_share(self, run: Observation, cause: str) -> float:
        """Return the part of the writers' time that write calls spent for a cause; 0 if not known.

        The writers' time is the time to return × the threads that could write at a time.
        """
        return run.split_s.get(cause, 0.0) / (run.return_s * self.writers_of(run))

    def cpu_wait_share(self, run: Observation) -> float:
        """Return the part of the writers' time in which they waited for a CPU in write calls."""
        return self.cause_share(run, CPU_WAIT)

    def is_starved(self, trial: Trial) -> bool:
        """Return whether its writers waited for a CPU for more of their time than is usual.

        By more than `CPU_WAIT_SLACK`, compared with the median run of the same setting, valid or
        not: on a host that is busy all the time every run waits. That a first run was disturbed is
        known only afterwards.
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
