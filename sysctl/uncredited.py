"""What was faster in pairs and may not be credited to what the setting changes, and why not."""

from __future__ import annotations

from sysctl.evidence import NEGLIGIBLE_SHARE
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs_tried import changed_knobs, changed_transfer, is_worth_its_knobs
from sysctl.mounts_tried import changed_options, is_worth_its_mount
from sysctl.results import PRESENT, Observation, Results
from sysctl.search.relevance import most_throttled, skip_reason
from sysctl.setting import Setting


def why_uncredited(results: Results, setting: Setting) -> str:
    """Why a gain is not the setting's doing, to follow `took 90% of the present time, `; or empty.

    A part of it made no difference beside the same setting without it, or nothing that it changes
    took part in the pull under the present settings.
    """
    if not is_worth_its_mount(results, setting):
        return "but its mount options made no difference at the same sysctls"
    if not is_worth_its_knobs(results, setting):
        knobs = " ".join(changed_knobs(results, setting))
        return f"but {knobs} made no difference"
    reason = _took_no_part(results, setting)
    return f"but nothing that it changes took part: {reason}" if reason else ""


def _took_no_part(results: Results, setting: Setting) -> str:
    """The reason of the first knob that it changes, where there is one for each; else empty."""
    seen = most_throttled(results.trials)
    if seen is None or changed_options(results, setting) or changed_transfer(results, setting):
        return ""
    present = results.of_role(PRESENT)[0].setting.values
    sysctls = (name for name, value in setting.sysctls if present.get(name) != value)
    names = [*sysctls, *(name for name, _ in setting.device)]
    reasons = [skip_reason(name, seen) or _no_throttling(name, seen) for name in names]
    return reasons[0] if all(reasons) and reasons else ""


def _no_throttling(name: str, seen: Observation) -> str:
    """Thresholds act by throttling alone, and so little of it is less than any gain that counts."""
    if name not in (*DIRTY_PAIR, *BACKGROUND_PAIR) or seen.stall_share >= NEGLIGIBLE_SHARE:
        return ""
    return f"writers slept in dirty throttling for {seen.stall_share:.1%} of their time"
