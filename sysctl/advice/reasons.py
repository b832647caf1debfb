# SPDX-License-Identifier: Apache-2.0
"""The reasons for each recommended value, as data with this host's figures.

`profiler.report.reasons` words them: the effect of a value, what was measured, its risk, and when
to revert it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Union

from sysctl.advice.analysis import Analysis
from sysctl.evidence.comparison import Side
from sysctl.evidence.results import CANDIDATE
from sysctl.evidence.statistics import Interval
from sysctl.knobs.setting import Setting
from sysctl.knobs.transfer import TRANSFER_BY_NAME
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR, THRESHOLDS
from sysctl.search.extras import MOUNT, Extra

#: The name of a reason for mount options; other reasons have the name of a knob.
MOUNT_OPTIONS = "mount options"
SET, KEEP, LEAVE_OUT = "set", "keep", "leave out"
#: The text for a mount without tunable options, and for a knob whose value is unknown.
DEFAULTS, AS_FOUND = "defaults", "as found"
#: The knob whose 0 is not the shortest time: it turns periodic write-back off.
_OFF_AT_0 = "vm.dirty_writeback_centisecs"


@dataclass(frozen=True)
class WholeSetting:
    """The time with the whole setting divided by the current time; `changes` values change."""

    interval: Interval
    changes: int


@dataclass(frozen=True)
class MeasuredWith:
    """The value was measured together with the change of `name`."""

    name: str


@dataclass(frozen=True)
class Unchanged:
    """The value stays; the combination was measured."""


@dataclass(frozen=True)
class InSearch:
    """Times to return (s) of single runs in which only this value differs, by value."""

    times_s: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class OwnPairs:
    """The time with an extra divided by the time without it."""

    interval: Interval


@dataclass(frozen=True)
class NotCompared:
    """An extra has no pairs of its own; `problem` is why its last run failed, if it did."""

    problem: str | None


Effect = Union[WholeSetting, MeasuredWith, Unchanged, InSearch, OwnPairs, NotCompared]


@dataclass(frozen=True)
class Reason:
    """A knob's value or a text of mount options: to `set`, to `keep` or to `leave out`, and why.

    `before` is the old value, None if nothing changes; `effects` is what was measured.
    `is_riskier`: the change has the known risk of the knob or option.
    """

    name: str
    value: str
    action: str
    effects: tuple[Effect, ...]
    before: str | None = None
    is_riskier: bool = False


def reasons_for(
    analysis: Analysis, present: Side, best: Side, interval: Interval
) -> tuple[Reason, ...]:
    """Return a reason for each value of the best setting and for each extra not in it."""
    setting = best.setting
    whole = WholeSetting(interval, analysis.runs.baseline.change_count(setting))
    return (
        *_sysctls(analysis, present, best, whole),
        *_device(analysis, setting),
        *_mount(analysis, setting),
        *_transfer(analysis, setting, whole),
        *_left_out(analysis, setting),
    )


def _sysctls(analysis: Analysis, present: Side, best: Side, whole: WholeSetting) -> list[Reason]:
    changed = analysis.runs.baseline.changed_sysctls(best.setting)
    found: list[Reason] = []
    for name, value in best.setting.values.items():
        searched = _in_search(analysis, best.setting, name)
        if name not in changed:
            kept = searched or (Unchanged(),)
            found.append(Reason(name, str(value), KEEP, kept))
            continue
        measured: Effect = whole if name == changed[0] else MeasuredWith(changed[0])
        if name not in THRESHOLDS:
            measured = _own(analysis, best.setting, name)
        found.append(
            Reason(
                name=name,
                value=str(value),
                action=SET,
                effects=(measured, *searched),
                before=_before(present.setting, name),
                is_riskier=_is_riskier(name, present, best),
            )
        )
    return found


def _device(analysis: Analysis, best: Setting) -> list[Reason]:
    before = analysis.runs.circumstances.node_class.present_device
    return [
        Reason(
            name=name,
            value=value,
            action=SET,
            effects=(_own(analysis, best, name),),
            before=before.get(name, AS_FOUND),
            is_riskier=True,
        )
        for name, value in best.device
        if before.get(name) != value
    ]


def _transfer(analysis: Analysis, best: Setting, whole: WholeSetting) -> list[Reason]:
    changed = analysis.runs.baseline.changed_transfer(best)
    before = dict(analysis.runs.baseline.setting.transfer)
    found = []
    for name, value in best.transfer:
        knob, is_changed = TRANSFER_BY_NAME[name], name in changed
        found.append(
            Reason(
                name=name,
                value=knob.text(value),
                action=SET if is_changed else KEEP,
                effects=(whole if is_changed else Unchanged(),),
                before=knob.text(before[name]) if is_changed and name in before else None,
            )
        )
    return found


def _mount(analysis: Analysis, best: Setting) -> list[Reason]:
    baseline = analysis.runs.baseline
    if not baseline.changed_options(best):
        return []
    return [
        Reason(
            name=MOUNT_OPTIONS,
            value=best.mount_options or DEFAULTS,
            action=SET,
            effects=(_own(analysis, best, MOUNT),),
            before=",".join(baseline.mount_words) or DEFAULTS,
            is_riskier=True,
        )
    ]


def _left_out(analysis: Analysis, best: Setting) -> list[Reason]:
    return [
        Reason(
            name=MOUNT_OPTIONS if name == MOUNT else name,
            value=value or DEFAULTS,
            action=LEAVE_OUT,
            effects=(_own(analysis, setting, name),),
        )
        for (name, value), setting in analysis.extras.compared.items()
        if not Extra(name, value).is_in(best)
    ]


def _before(present: Setting, name: str) -> str | None:
    """Return the old value; for a ratio/bytes pair that of the member in force."""
    counterpart = BY_NAME[name].counterpart
    if name in present.values:
        return str(present.values[name])
    if counterpart in present.values:
        return f"{counterpart} = {present.values[str(counterpart)]}"
    return None


def _is_riskier(name: str, present: Side, best: Side) -> bool:
    """Return whether more data is in memory: by the thresholds, else by the value itself."""
    old, new = present.thresholds, best.thresholds
    if name in DIRTY_PAIR:
        return new.dirty_bytes > old.dirty_bytes
    if name in BACKGROUND_PAIR:
        return new.background_bytes > old.background_bytes
    before = present.setting.values.get(name, BY_NAME[name].kernel_default)
    return _in_memory_for(name, best.setting.values[name]) > _in_memory_for(name, before)


def _in_memory_for(name: str, value: int) -> float:
    """Return how long data stays in memory with a value, for comparison."""
    return math.inf if name == _OFF_AT_0 and value == 0 else value


def _in_search(analysis: Analysis, chosen: Setting, name: str) -> tuple[InSearch, ...]:
    """Return the times of the settings that differ from the chosen one only in this sysctl."""
    times = {
        trial.setting.values[name]: trial.valid.return_s
        for trial in analysis.runs.of_role(CANDIDATE)
        if trial.valid and _without(trial.setting, name) == _without(chosen, name)
    }
    return (InSearch(tuple(sorted(times.items()))),) if len(times) > 1 else ()


def _without(setting: Setting, name: str) -> tuple[object, ...]:
    others = {other: value for other, value in setting.values.items() if other != name}
    rest = (setting.mount_options, setting.device, setting.transfer)
    return (name in setting.values, tuple(sorted(others.items())), rest)


def _own(analysis: Analysis, setting: Setting, name: str) -> OwnPairs | NotCompared:
    """Return the result of the pairs with and without an extra."""
    interval = analysis.extras.own_interval(setting, name)
    if interval is not None:
        return OwnPairs(interval)
    problems = [trial.problem for trial in analysis.runs.of_setting(setting) if trial.problem]
    return NotCompared(problems[-1] if problems else None)
