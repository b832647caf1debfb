"""What the trials of a sweep say about knobs beside the thresholds: each against itself without it.

A wide sweep varies one knob at a time around the fastest setting, so some of many will be fastest
by luck. A knob counts where its setting was faster than the same one without it, by as much as a
mount option must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.mounts_tried import MOUNT_GAIN, time_ratio
from sysctl.results import CANDIDATE, PRESENT, Results
from sysctl.setting import Setting

_THRESHOLDS = (*DIRTY_PAIR, *BACKGROUND_PAIR)


def changed_knobs(results: Results, setting: Setting) -> list[str]:
    """The disk's knobs that a setting names, and what it changes beside the thresholds.

    That is other sysctls, and settings of the pull itself.
    """
    present = _present_values(results)
    sysctls = (
        n for n, value in setting.sysctls if n not in _THRESHOLDS and present.get(n) != value
    )
    return [*(name for name, _ in setting.device), *sysctls, *changed_transfer(results, setting)]


def changed_transfer(results: Results, setting: Setting) -> list[str]:
    """The pull's own settings in which it differs from the present ones."""
    present = _present_transfer(results)
    return [name for name, value in setting.transfer if present.get(name) != value]


def knob_ratios(results: Results, setting: Setting) -> list[float]:
    """The setting's time divided by that of the same one without a knob, where both were tried."""
    tried = results.derived(_tried)
    if setting not in tried:
        return []
    bases = (
        base
        for name in changed_knobs(results, setting)
        for base in _without(results, setting, name)
        if base in tried
    )
    return [time_ratio(results, setting, base) for base in bases]


def _tried(results: Results) -> set[Setting]:
    return {
        trial.setting
        for trial in results.trials
        if trial.valid and trial.pair is None and trial.role in (PRESENT, CANDIDATE)
    }


def is_worth_its_knobs(results: Results, setting: Setting) -> bool:
    """Whether nothing speaks against the setting's knobs beside the thresholds.

    True where it changes none, or where it was not tried without them.
    """
    return all(ratio < 1 - MOUNT_GAIN for ratio in knob_ratios(results, setting))


def _without(results: Results, setting: Setting, name: str) -> Iterator[Setting]:
    """The setting without the knob: not named, or named with the value in force."""
    sysctls = tuple(pair for pair in setting.sysctls if pair[0] != name)
    device = tuple(pair for pair in setting.device if pair[0] != name)
    used = _present_transfer(results)
    transfer = tuple((n, used.get(n, v) if n == name else v) for n, v in setting.transfer)
    yield replace(setting, sysctls=sysctls, device=device, transfer=transfer)
    present = _present_values(results)
    if name in present:
        named = tuple((n, present[n] if n == name else value) for n, value in setting.sysctls)
        yield replace(setting, sysctls=named, device=device)


def _present_values(results: Results) -> dict[str, int]:
    return next((trial.setting.values for trial in results.of_role(PRESENT)), {})


def _present_transfer(results: Results) -> dict[str, int]:
    return dict(next((trial.setting.transfer for trial in results.of_role(PRESENT)), ()))
