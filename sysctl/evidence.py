"""What the repeated runs of one setting show together: one side of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.results import PRESENT, Observation, Results, Trial
from sysctl.setting import Setting, replace_values
from sysctl.statistics import Repeats, summarize
from sysctl.writeback import Thresholds, effective_thresholds


@dataclass(frozen=True)
class Side:
    """A setting, its times to return (s), what the run of the median time showed, and its meaning.

    `thresholds` are what the setting means with the memory that the sweep began with: the memory
    of each run differs a little, and two settings should differ in what they say alone.
    """

    setting: Setting
    return_s: Repeats
    observation: Observation
    durable_s: float | None
    thresholds: Thresholds


def side_of(results: Results, trials: Sequence[Trial]) -> Side | None:
    """The repeated runs of one setting as a side; None when none of them is valid."""
    valid = sorted((t.valid for t in trials if t.valid), key=lambda seen: seen.return_s)
    if not valid:
        return None
    setting = trials[0].setting
    return Side(
        setting=setting,
        return_s=summarize([seen.return_s for seen in valid]),
        observation=valid[(len(valid) - 1) // 2],
        durable_s=next((seen.durable_s for seen in valid if seen.durable_s is not None), None),
        thresholds=thresholds_of(results, setting),
    )


def thresholds_of(results: Results, setting: Setting) -> Thresholds:
    """What a setting means in bytes on the host of the sweep, as that host was when it began."""
    present = results.of_role(PRESENT)
    values = replace_values(present[0].setting.values if present else {}, setting.values)
    return effective_thresholds(values, results.context["dirtyable_bytes"])
