"""Why a recommended value is what it is, and why an option that was tried is not recommended."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from contracts.units import format_size
from sysctl.knobs.mount import find, split_options
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR
from sysctl.results import CANDIDATE, Observation, Results, Trial
from sysctl.setting import Setting


@dataclass(frozen=True)
class Reason:
    """One setting, what to do with it (`set`, `keep`), and why, in a sentence; `risk` may be "".

    `value` is the recommended value, or the option's word.
    """

    name: str
    value: str
    action: str
    why: str
    risk: str = ""


def explain(
    results: Results, present: Setting, before: Observation, chosen: Trial
) -> tuple[Reason, ...]:
    """A reason for each sysctl and each mount option that was in the sweep."""
    after = chosen.valid
    if after is None:
        return ()
    sysctls = [
        Reason(
            name,
            str(value),
            "set" if present.values.get(name) != value else "keep",
            _sysctl_reason(name, before, after),
            BY_NAME[name].risk if present.values.get(name) != value else "",
        )
        for name, value in chosen.setting.sysctls
    ]
    return (*sysctls, *_mount_reasons(results, chosen))


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


def _mount_reasons(results: Results, chosen: Trial) -> list[Reason]:
    if chosen.setting.mount_options is None:
        return []
    fstype = str(results.context.get("fstype", ""))
    present = set(results.context.get("mount_words", ()))
    wanted = set(split_options(chosen.setting.mount_options))
    tried = {
        word
        for trial in results.of_role(CANDIDATE)
        for word in split_options(trial.setting.mount_options or "")
    }
    reasons = []
    for word in sorted(tried | present):
        option = find(word, fstype)
        action = "set" if word in wanted - present else "keep" if word in wanted else "leave out"
        why = _measured_effect(results, word) or (option.note if option else "")
        risk = option.risk if option and action == "set" else ""
        reasons.append(Reason("mount option", word, action, why, risk))
    return reasons


def _measured_effect(results: Results, word: str) -> str:
    """Times with the option divided by those without, at the same sysctls."""
    with_word: dict[object, list[float]] = {}
    without: dict[object, list[float]] = {}
    for trial in results.of_role(CANDIDATE):
        if trial.valid:
            has = word in split_options(trial.setting.mount_options or "")
            times = with_word if has else without
            times.setdefault(trial.setting.sysctls, []).append(trial.valid.return_s)
    ratios = [
        statistics.median(times) / statistics.median(without[sysctls])
        for sysctls, times in with_word.items()
        if sysctls in without
    ]
    if not ratios:
        return ""
    span = f"{min(ratios):.2f}" if len(ratios) == 1 else f"{min(ratios):.2f} to {max(ratios):.2f}"
    return f"time with it {span} of the time without, at the same sysctls"
