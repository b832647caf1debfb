# SPDX-License-Identifier: Apache-2.0
"""What the ledger keeps of a run: a few numbers. The rest is in the result's own document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sysctl.evidence.checks import seconds, share_or_time, whole
from sysctl.evidence.results import Observation, Trial
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import effective_thresholds

MAX_RUNS = 64
_MAX_PROBLEM = 80
_FIELDS = 9


@dataclass(frozen=True)
class RunSummary:
    """One run: of the current settings (`at` 0) or of the claim's setting number `at`, from 1.

    `pair` is the number of its pair in the claim, None outside blocks. A run with a `problem` has
    no figures that count; one that was stopped took longer than `stopped_s`.
    """

    at: int
    pair: int | None
    return_s: float | None
    stall_share: float
    peak_dirty_bytes: int
    bytes: int
    dirtyable_bytes: int
    stopped_s: float | None = None
    problem: str = ""

    def to_json(self) -> list[Any]:
        """Return the numbers in the order of the fields."""
        rounded = [self.return_s, self.stall_share, self.stopped_s]
        return_s, stall, stopped_s = (None if x is None else float(f"{x:.9g}") for x in rounded)
        sizes = [self.peak_dirty_bytes, self.bytes, self.dirtyable_bytes]
        return [self.at, self.pair, return_s, stall, *sizes, stopped_s, self.problem]

    def as_trial(self, role: str, setting: Setting, scale: float = 1.0) -> Trial:
        """Return the run as a trial, with its time multiplied by `scale`."""
        observed = None if self.return_s is None else self._observation(setting, scale)
        stopped_s = None if self.stopped_s is None else self.stopped_s * scale
        return Trial(role, setting, "", observed, self.problem, self.pair, stopped_s)

    def _observation(self, setting: Setting, scale: float) -> Observation:
        thresholds = effective_thresholds(setting.values, self.dirtyable_bytes)
        return Observation(
            return_s=(self.return_s or 0.0) * scale,
            durable_s=None,
            stall_share=self.stall_share,
            peak_dirty_bytes=self.peak_dirty_bytes,
            thresholds=thresholds,
            limit_bytes=thresholds.dirty_bytes,
            bytes=self.bytes,
            objects=1,
            dirtyable_bytes=self.dirtyable_bytes,
        )


def run_of(trial: Trial, at: int) -> RunSummary:
    """Return the summary of a trial of the claim's setting number `at`."""
    seen = trial.valid
    return RunSummary(
        at=at,
        pair=trial.pair,
        return_s=seen.return_s if seen else None,
        stall_share=seen.throttled_share if seen else 0.0,
        peak_dirty_bytes=seen.peak_dirty_bytes if seen else 0,
        bytes=seen.bytes if seen else 0,
        dirtyable_bytes=seen.dirtyable_bytes if seen else 0,
        stopped_s=trial.stopped_s,
        problem=trial.problem[:_MAX_PROBLEM],
    )


def runs_from_json(data: object, settings: int) -> tuple[RunSummary, ...]:
    """Return the runs of a claim with that many settings. Raises ValueError or TypeError."""
    if not isinstance(data, list) or len(data) > MAX_RUNS:
        raise ValueError(f"not a list of at most {MAX_RUNS} runs")
    return tuple(_run(each, settings) for each in data)


def _run(data: object, settings: int) -> RunSummary:
    if not isinstance(data, list) or len(data) != _FIELDS:
        raise ValueError(f"a run is not a list of {_FIELDS} values")
    at, pair, return_s, stall, peak, size, dirtyable, stopped_s, problem = data
    if type(at) is not int or not 0 <= at <= settings:
        raise ValueError(f"the claim has no setting {at!r:.20}")
    if not (pair is None or (type(pair) is int and 0 <= pair < MAX_RUNS)):
        raise ValueError(f"invalid pair {pair!r:.20}")
    if not isinstance(problem, str) or len(problem) > _MAX_PROBLEM:
        raise ValueError("invalid problem")
    if return_s is None and stopped_s is None and not problem:
        raise ValueError("a run without a time has no problem")
    return RunSummary(
        at=at,
        pair=pair,
        return_s=None if return_s is None or problem else _time_s(return_s),
        stall_share=share_or_time(stall),
        peak_dirty_bytes=whole(peak),
        bytes=whole(size),
        dirtyable_bytes=whole(dirtyable),
        stopped_s=None if stopped_s is None else _time_s(stopped_s),
        problem=problem,
    )


def _time_s(value: object) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"invalid time: {value!r:.40}")
    return seconds(value)


def ratios_of(runs: Sequence[RunSummary], at: int) -> list[float]:
    """Return the ratios of the complete pairs of a setting with the current settings."""
    times = {(run.pair, run.at): run.return_s for run in runs if run.pair is not None}
    pairs = sorted({pair for pair, _ in times if pair is not None})
    found = [(times.get((pair, at)), times.get((pair, 0))) for pair in pairs]
    return [after / before for after, before in found if after and before]


def at_pair(run: RunSummary, pair: int) -> RunSummary:
    """Return the run as one of another pair."""
    return replace(run, pair=pair)
