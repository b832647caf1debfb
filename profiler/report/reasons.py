# SPDX-License-Identifier: Apache-2.0
"""The reasons for recommended values, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.shared.text import printable
from contracts.shared.units import counted, format_seconds, format_size
from profiler.report.conclusions import share, share_text
from sysctl.advice.advise import Recommendation
from sysctl.advice.reasons import (
    DEFAULTS,
    LEAVE_OUT,
    MOUNT_OPTIONS,
    SET,
    Effect,
    InSearch,
    MeasuredWith,
    NotCompared,
    OwnPairs,
    Reason,
    Unchanged,
)
from sysctl.evidence.comparison import Side
from sysctl.knobs.catalogue import DEVICE_BY_NAME
from sysctl.knobs.mount import MountOption, find, split_options
from sysctl.knobs.transfer import TRANSFER_BY_NAME
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR


@dataclass(frozen=True)
class ReasonText:
    """A reason in words; each part is a sentence without its full stop, or empty.

    `mechanism` says what the value does here, `effect` what was measured, `risk` what the change
    may cost, and `undo` when to revert it.
    """

    name: str
    value: str
    action: str
    before: str
    mechanism: str
    effect: str
    risk: str
    undo: str

    @property
    def why(self) -> str:
        """Return mechanism and effect in one line."""
        return "; ".join(part for part in (self.mechanism, self.effect) if part)


def reason_texts(recommendation: Recommendation) -> list[ReasonText]:
    """Return the reasons of a recommended change; none where no change is recommended."""
    best = recommendation.best
    return [_worded(reason, recommendation, best) for reason in recommendation.reasons if best]


def _worded(reason: Reason, recommendation: Recommendation, best: Side) -> ReasonText:
    fstype = recommendation.analysis.runs.circumstances.node_class.fstype
    is_set = reason.action == SET
    return ReasonText(
        name=reason.name,
        value=reason.value,
        action=reason.action,
        before=reason.before or "",
        mechanism=_mechanism(reason, recommendation.present, best, fstype),
        effect="; ".join(map(_effect, reason.effects)),
        risk=_risk(reason, fstype) if reason.is_riskier else "",
        undo=_undo(reason.name, recommendation) if is_set else "",
    )


def _mechanism(reason: Reason, present: Side, best: Side, fstype: str) -> str:
    name = reason.name
    if name == MOUNT_OPTIONS:
        return "; ".join(f"{each.name}: {each.note}" for each in _known(reason, fstype))
    if name in DEVICE_BY_NAME:
        return DEVICE_BY_NAME[name].what
    if name in TRANSFER_BY_NAME:
        return TRANSFER_BY_NAME[name].what
    if name not in (*BACKGROUND_PAIR, *DIRTY_PAIR) or reason.action == LEAVE_OUT:
        return BY_NAME[name].what
    before = present if reason.action == SET else None
    return (_background if name in BACKGROUND_PAIR else _dirty)(best, before)


def _background(best: Side, present: Side | None) -> str:
    now = f"write-back starts at {format_size(best.thresholds.background_bytes)} of dirty pages"
    if present is None:
        return now
    return f"{now} instead of {format_size(present.thresholds.background_bytes)}"


def _dirty(best: Side, present: Side | None) -> str:
    now = format_size(best.thresholds.freerun_bytes)
    if present is None:
        return f"writers are throttled above {now} of dirty pages, {_stall(best)} of their time"
    return (
        f"writers were throttled above {format_size(present.thresholds.freerun_bytes)} of dirty "
        f"pages, {_stall(present)} of their time; with this value, above {now}, {_stall(best)} of "
        "their time"
    )


def _stall(side: Side) -> str:
    return f"{side.observation.throttled_share:.0%}"


def _known(reason: Reason, fstype: str) -> Iterator[MountOption]:
    text = "" if reason.value == DEFAULTS else reason.value
    return filter(None, (find(word, fstype) for word in split_options(text)))


def _effect(effect: Effect) -> str:
    if isinstance(effect, MeasuredWith):
        return f"measured together with {effect.name}"
    if isinstance(effect, Unchanged):
        return "unchanged: this combination was measured"
    if isinstance(effect, InSearch):
        return _in_search(effect.times_s)
    if isinstance(effect, NotCompared):
        why = f": {printable(effect.problem)}" if effect.problem else ""
        return f"was not compared with the same settings without it{why}"
    if isinstance(effect, OwnPairs):
        interval = effect.interval
        return (
            f"with it the pull took {share(interval.estimate)} of the time without it (95% "
            f"interval {share(interval.low)} to {share(interval.high)}, "
            f"{counted(interval.count, 'pair')})"
        )
    changes = "this change" if effect.changes == 1 else "all changes together"
    return f"with {changes} the pull took {share_text(effect.interval)}"


def _in_search(times_s: Sequence[tuple[int, float]]) -> str:
    shown = ", ".join(f"{value}: {format_seconds(time_s)}" for value, time_s in times_s)
    return f"in the search, one run each with this value alone changed: {shown}"


def _risk(reason: Reason, fstype: str) -> str:
    if reason.name == MOUNT_OPTIONS:
        return "; ".join(each.risk for each in _known(reason, fstype) if each.risk)
    known = DEVICE_BY_NAME if reason.name in DEVICE_BY_NAME else BY_NAME
    return known[reason.name].risk


def _undo(name: str, recommendation: Recommendation) -> str:
    """Return when to revert a value that is set."""
    if name == MOUNT_OPTIONS:
        return "if that risk is unacceptable: mount with the old options"
    if name in DEVICE_BY_NAME:
        return (
            "if the volume is replaced by one of another kind; a restart reverts it, unless a "
            "udev rule sets it again"
        )
    if name in TRANSFER_BY_NAME:
        return "with a pull without it: nothing on the host is changed"
    if name in BACKGROUND_PAIR:
        return f"together with {DIRTY_PAIR[0]} or {DIRTY_PAIR[1]}: they were measured together"
    if name not in DIRTY_PAIR:
        return "if data must be on the device sooner than this setting writes it"
    held = format_size((recommendation.price or recommendation.present_price).at_risk_bytes)
    return (
        "if what is written cannot be fetched again, or if programs need the "
        f"{held} of memory that it holds"
    )
