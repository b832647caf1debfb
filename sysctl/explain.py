"""Why a recommended value is what it is."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.units import format_size
from sysctl.evidence import Side
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR
from sysctl.results import CANDIDATE, Results
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


def explain_sysctls(results: Results, present: Side, best: Side) -> tuple[Reason, ...]:
    """A reason for each sysctl of the best setting: what it does here, and what others measured."""
    reasons = []
    for name, value in best.setting.sysctls:
        is_new = present.setting.values.get(name) != value
        effect = _effect(name, present if is_new else best, best)
        parts = (effect, _others(results, best.setting, name))
        why = "; ".join(part for part in parts if part)
        risk = BY_NAME[name].risk if is_new else ""
        reasons.append(Reason(name, str(value), "set" if is_new else "keep", why, risk))
    return tuple(reasons)


def _effect(name: str, before: Side, after: Side) -> str:
    """What the value does to this pull."""
    old, new = before.thresholds, after.thresholds
    if name in BACKGROUND_PAIR:
        changed = f" ({format_size(old.background_bytes)} before)" if old is not new else ""
        return f"write-back starts at {format_size(new.background_bytes)} of dirty pages{changed}"
    if name not in DIRTY_PAIR:
        return BY_NAME[name].what
    share = f"{after.observation.stall_share:.0%}"
    if before is after:
        return (
            f"writers wait from {format_size(new.freerun_bytes)} of dirty pages on, "
            f"{share} of their time"
        )
    return (
        f"writers had to wait from {format_size(old.freerun_bytes)} of dirty pages on, "
        f"{before.observation.stall_share:.0%} of their time; now from "
        f"{format_size(new.freerun_bytes)}, {share} of it"
    )


def _others(results: Results, chosen: Setting, name: str) -> str:
    """The times of the settings that differ from the chosen one in this sysctl alone."""
    times = {
        trial.setting.values[name]: trial.valid.return_s
        for trial in results.of_role(CANDIDATE)
        if trial.valid and _without(trial.setting, name) == _without(chosen, name)
    }
    if len(times) < 2:
        return ""
    shown = ", ".join(f"{value}: {seconds:.1f} s" for value, seconds in sorted(times.items()))
    return f"with only this value changed it took {shown}"


def _without(setting: Setting, name: str) -> tuple[object, ...]:
    return (*(pair for pair in setting.sysctls if pair[0] != name), setting.mount_options)
