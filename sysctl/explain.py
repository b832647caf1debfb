"""Why a recommended value is what it is."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.units import format_size
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR
from sysctl.results import Observation, Trial
from sysctl.setting import Setting

#: The name of a reason that is about mount options; of others it is a sysctl's.
MOUNT_OPTIONS = "mount options"


@dataclass(frozen=True)
class Reason:
    """A sysctl's value or a text of mount options: to `set`, to `keep` or to `leave out`, and why.

    `risk` is what the change may cost, empty when nothing is known or nothing changes.
    """

    name: str
    value: str
    action: str
    why: str
    risk: str = ""


def explain_sysctls(present: Setting, before: Observation, chosen: Trial) -> tuple[Reason, ...]:
    """A reason for each sysctl of the chosen trial."""
    after = chosen.valid
    if after is None:
        return ()
    return tuple(
        Reason(
            name,
            str(value),
            "keep" if present.values.get(name) == value else "set",
            _sysctl_reason(name, before, after),
            "" if present.values.get(name) == value else BY_NAME[name].risk,
        )
        for name, value in chosen.setting.sysctls
    )


def _sysctl_reason(name: str, before: Observation, after: Observation) -> str:
    old, new = before.thresholds, after.thresholds
    if name in DIRTY_PAIR:
        return _dirty_reason(before, after)
    if name in BACKGROUND_PAIR:
        return (
            f"write-back starts at {format_size(new.background_bytes)} of dirty pages "
            f"({format_size(old.background_bytes)} before): the lowest tried that was as fast, so "
            "the device is at work early and least is left to lose"
            if new.background_bytes < old.background_bytes
            else f"write-back starts at {format_size(new.background_bytes)} of dirty pages "
            f"({format_size(old.background_bytes)} before)"
        )
    return f"{BY_NAME[name].what}; part of the fastest combination"


def _dirty_reason(before: Observation, after: Observation) -> str:
    old, new = before.thresholds.freerun_bytes, after.thresholds.freerun_bytes
    first = (
        f"writers had to wait from {format_size(old)} of dirty pages on "
        f"({before.stall_share:.0%} of their time); now from {format_size(new)}"
    )
    if after.peak_dirty_bytes <= new:
        return f"{first}, and this pull peaks at {format_size(after.peak_dirty_bytes)}"
    return f"{first} ({after.stall_share:.0%} of their time)"
