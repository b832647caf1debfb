# SPDX-License-Identifier: Apache-2.0
"""The trade-off between time to return and bytes at risk, for measured and well-known settings.

Settings that were not measured are predicted (`sysctl.evidence.prediction`) and marked so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.advice.analysis import Analysis
from sysctl.evidence.comparison import Side
from sysctl.evidence.prediction import Extrapolation
from sysctl.evidence.results import RECHECK
from sysctl.evidence.runs import Runs
from sysctl.evidence.statistics import Repeats, summarize
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR

CURRENT_NAME = "current"
DEFAULT_NAME = "kernel default"
CASE_STUDY_NAME = "case study 30/20"
RECOMMENDED_NAME = "recommended"
_DIRTY, _BACKGROUND = DIRTY_PAIR[0], BACKGROUND_PAIR[0]
#: Well-known settings by name.
WELL_KNOWN: Mapping[str, Mapping[str, int]] = {
    DEFAULT_NAME: {name: BY_NAME[name].kernel_default for name in (_DIRTY, _BACKGROUND)},
    CASE_STUDY_NAME: {_DIRTY: 30, _BACKGROUND: 20},
}


@dataclass(frozen=True)
class Point:
    """A setting's time to return (s), bytes at risk and time to durable (s, or None).

    `names` is empty for an ordinary candidate. `runs` is the number of valid trials behind the
    median time, 0 if it is predicted: those of the comparison for the current and the recommended
    settings, only those of the recheck for other rechecked settings. `extrapolates` has the reasons
    why a prediction is less certain. `shortest_s` and `longest_s` are the extremes of the times of
    these trials, None if it is predicted.
    """

    setting: Setting
    names: tuple[str, ...]
    return_s: float
    at_risk_bytes: int
    durable_s: float | None
    runs: int
    extrapolates: tuple[Extrapolation, ...] = ()
    shortest_s: float | None = None
    longest_s: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether a pull ran under this setting."""
        return self.runs > 0


@dataclass(frozen=True)
class TradeOff:
    """The points in the order of bytes at risk.

    `missing` are the names of settings that were neither measured nor predicted; `why_missing` is
    the reason.
    """

    points: tuple[Point, ...]
    missing: tuple[str, ...] = ()
    why_missing: str | None = None

    @property
    def telling(self) -> tuple[Point, ...]:
        """The points with a name, and those that no other beats in both time and bytes at risk."""
        front = self._front()
        return tuple(p for p in self.points if p.names or (p.at_risk_bytes, p.return_s) in front)

    def _front(self) -> set[tuple[int, float]]:
        """The Pareto front as (bytes at risk, time): each faster than all that risk less."""
        front: set[tuple[int, float]] = set()
        fastest_s = math.inf
        for at_risk_bytes, return_s in sorted((p.at_risk_bytes, p.return_s) for p in self.points):
            if return_s < fastest_s:
                front.add((at_risk_bytes, return_s))
                fastest_s = return_s
        return front


def trade_off(analysis: Analysis, present: Side, best: Side | None = None) -> TradeOff:
    """Return every measured setting, and the well-known ones, measured or predicted.

    `present` and `best` (the recommended one) are the sides of the comparison; their times are
    those of the comparison.
    """
    points = [_measured(analysis, each, present, best) for each in analysis.runs.timed_s]
    known = {name for point in points for name in point.names}
    absent = {name: values for name, values in WELL_KNOWN.items() if name not in known}
    predicted = _predicted(analysis, absent)
    ordered = sorted([*points, *predicted], key=lambda p: (p.at_risk_bytes, p.return_s))
    missing = () if predicted else tuple(absent)
    return TradeOff(tuple(ordered), missing, analysis.unpredictable if missing else None)


def _measured(analysis: Analysis, setting: Setting, present: Side, best: Side | None) -> Point:
    sides = (side for side in (present, best) if side and side.setting == setting)
    side = next(sides, None)
    times = side.return_s if side else _times_of(analysis.runs, setting)
    price = analysis.prices[setting]
    names = {
        CURRENT_NAME: setting == present.setting,
        RECOMMENDED_NAME: best is not None and setting == best.setting,
        **_well_known(analysis.runs, setting),
    }
    return Point(
        setting=setting,
        names=tuple(name for name, is_it in names.items() if is_it),
        return_s=times.median,
        at_risk_bytes=price.at_risk_bytes,
        durable_s=price.measured_durable_s,
        runs=times.count,
        shortest_s=times.smallest,
        longest_s=times.largest,
    )


def _times_of(runs: Runs, setting: Setting) -> Repeats:
    """Return the times to return of a setting's valid runs; only of its recheck, if it has one."""
    trials = (trial for trial in runs.of_setting(setting) if trial.role == RECHECK)
    rechecks = [trial.valid.return_s for trial in trials if trial.valid]
    return summarize(rechecks or runs.timed_s[setting])


def _well_known(runs: Runs, setting: Setting) -> dict[str, bool]:
    """Return which well-known settings it equals: the same thresholds and nothing else changed."""
    if runs.baseline.changed_besides_thresholds(setting):
        return {}
    present, own = runs.baseline.setting.values, runs.baseline.values_with(setting)
    return {name: replace_values(present, values) == own for name, values in WELL_KNOWN.items()}


def _predicted(analysis: Analysis, wanted: Mapping[str, Mapping[str, int]]) -> list[Point]:
    """Return the predictions of well-known settings; none without a model."""
    model, present = analysis.model, analysis.runs.baseline.setting.values
    if model is None:
        return []
    points = []
    for name, values in wanted.items():
        found = model.predict(replace_values(present, values))
        points.append(
            Point(
                setting=Setting(tuple(values.items())),
                names=(name,),
                return_s=found.return_s,
                at_risk_bytes=int(found.peak_dirty_bytes),
                durable_s=found.durable_s,
                runs=0,
                extrapolates=found.extrapolates,
            )
        )
    return points
