# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep in Python: for notebooks and scripts.

Everything here reads a results file only: no root, no probes, no network. What is returned is made
of dicts, lists, numbers and text, so that pandas takes it as it is. Names and units are those of
`writewise … --json`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from contracts.shared.errors import WritewiseError
from contracts.shared.units import exact_size
from profiler.report.advice_document import advice_document
from sysctl.advice.advise import advise
from sysctl.evidence.prediction import BURST_BYTES, MEMORY_BYTES, fit
from sysctl.evidence.price import Limits, limits_of
from sysctl.evidence.results import Observation, Results, Trial
from sysctl.evidence.results import load as load_results
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import invalid_reason, replace_values
from sysctl.knobs.vm import BY_NAME

__all__ = ["Sweep", "WritewiseError", "load"]

#: Fields of an observation that are columns as they are.
_MEASURED = (
    *("return_s", "durable_s", "stall_share", "peak_dirty_bytes", "bytes", "objects", "writers"),
    *("dirtyable_bytes", "others_dirtied_bytes", "stolen_share", "held_up_by"),
)


@dataclass(frozen=True)
class Sweep:
    """A results file that was read. `results` is the whole of it, as the code has it."""

    results: Results

    def trials(self) -> list[dict[str, Any]]:
        """Return a row for each trial, in the order in which they ran.

        A column for each sysctl, knob of the disk and setting of the pull by its name; None where
        the trial did not name it. Times are in s and sizes in bytes. A row with a `problem` counts
        in no comparison; without an observation the columns of what was measured are None.
        """
        trials = self.results.trials
        names = dict.fromkeys(name for trial in trials for name in _values(trial))
        return [_row(number, trial, names) for number, trial in enumerate(trials, 1)]

    def predict(
        self,
        values: Mapping[str, int] | None = None,
        *,
        burst_bytes: int | None = None,
        dirtyable_bytes: int | None = None,
    ) -> dict[str, Any]:
        """Return what a pull would take under sysctl `values`, based on the runs of the sweep.

        `values` are named in full (`vm.dirty_ratio`); what they omit is as it was. Size and
        memory are those of the sweep by default. `is_extrapolated` says that the prediction goes
        beyond what was measured. Raises WritewiseError for an unknown name, a value out of range,
        values that the kernel does not take together, and if the runs are insufficient.
        """
        chosen = dict(values or {})
        _check(chosen)
        _check_size("burst_bytes", burst_bytes, BURST_BYTES)
        _check_size("dirtyable_bytes", dirtyable_bytes, MEMORY_BYTES)
        runs = Runs.of(self.results)
        model = fit(runs)
        complete = replace_values(runs.baseline.setting.values, chosen)
        why = invalid_reason(complete, dirtyable_bytes or model.dirtyable_bytes)
        if why:
            raise WritewiseError(f"invalid values: {why}", "raise dirty or lower background")
        predicted = model.predict(chosen, burst_bytes=burst_bytes, dirtyable_bytes=dirtyable_bytes)
        return {
            **chosen,
            "return_s": predicted.return_s,
            "durable_s": predicted.durable_s,
            "peak_dirty_bytes": predicted.peak_dirty_bytes,
            "is_extrapolated": bool(predicted.extrapolates),
        }

    def recommend(
        self, *, max_at_risk_bytes: int | None = None, max_durable_s: float | None = None
    ) -> dict[str, Any]:
        """Return the document of `writewise advise --json`.

        A limit that is not passed is that of the sweep. Raises WritewiseError for a negative limit,
        and if there is nothing to compare.
        """
        _check_limit("max_at_risk_bytes", max_at_risk_bytes)
        _check_limit("max_durable_s", max_durable_s)
        asked = limits_of(self.results.circumstances)
        limits = Limits(
            asked.max_at_risk_bytes if max_at_risk_bytes is None else max_at_risk_bytes,
            asked.max_durable_s if max_durable_s is None else max_durable_s,
        )
        return advice_document(advise(self.results, limits))


def load(path: str | Path) -> Sweep:
    """Read a results file that `sweep`, `transfer tune` or an earlier version wrote.

    Raises WritewiseError with what is wrong with the file.
    """
    return Sweep(load_results(Path(path)))


def _row(number: int, trial: Trial, names: Mapping[str, None]) -> dict[str, Any]:
    values = _values(trial)
    seen = trial.observation
    return {
        "trial": number,
        "role": trial.role,
        "pair": trial.pair,
        "started_at": trial.started_at,
        "setting": str(trial.setting),
        **{name: values.get(name) for name in names},
        "mount_options": trial.setting.mount_options,
        **{name: _measured(seen, name) for name in _MEASURED},
        "elapsed_s": trial.elapsed_s,
        "stopped_s": trial.stopped_s,
        "problem": trial.problem or None,
    }


def _values(trial: Trial) -> dict[str, int | str]:
    setting = trial.setting
    return {**setting.values, **dict(setting.device), **dict(setting.transfer)}


def _measured(seen: Observation | None, name: str) -> Any:
    return None if seen is None else getattr(seen, name)


def _check(values: Mapping[str, int]) -> None:
    for name, value in values.items():
        knob = BY_NAME.get(name)
        if knob is None:
            known = ", ".join(BY_NAME)
            raise WritewiseError(f"unknown sysctl {name!r}", f"use one of {known}")
        _check_whole(name, value)
        if not knob.minimum <= value <= knob.maximum:
            raise WritewiseError(
                f"{name} = {value} is out of range", f"use {knob.minimum} to {knob.maximum}"
            )
        if knob.counterpart in values:
            raise WritewiseError(
                f"{name} and {knob.counterpart} set the same threshold; the kernel keeps only one",
                "pass one of them",
            )


def _check_size(name: str, size_bytes: int | None, span: tuple[int, int]) -> None:
    if size_bytes is None:
        return
    _check_whole(name, size_bytes)
    least, most = span
    if not least <= size_bytes <= most:
        raise WritewiseError(
            f"{name} = {size_bytes} is out of range",
            f"use {exact_size(least)} to {exact_size(most)}",
        )


def _check_whole(name: str, value: object) -> None:
    """True is an int to Python, but not to a reader."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise WritewiseError(f"{name} = {value!r} is not a whole number", "pass an int")


def _check_limit(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise WritewiseError(f"{name} = {value!r} is not a limit", "pass a number of 0 or more")
