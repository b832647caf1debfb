"""What a setting changes compared with the present ones, by kind."""

from __future__ import annotations

from sysctl.evidence.results import PRESENT, Results
from sysctl.knobs.mount import split_options
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.vm import THRESHOLDS


def present_setting(results: Results) -> Setting:
    """Return the present settings; an empty setting where no run of them is known."""
    return next((trial.setting for trial in results.of_role(PRESENT)), Setting(()))


def changed_sysctls(results: Results, setting: Setting) -> list[str]:
    """Return the sysctls to which the setting gives another value."""
    present = present_setting(results).values
    return [name for name, value in setting.sysctls if present.get(name) != value]


def thresholds(results: Results, setting: Setting) -> dict[str, int]:
    """Return the thresholds in force with it, by sysctl."""
    values = replace_values(present_setting(results).values, setting.values)
    return {name: value for name, value in values.items() if name in THRESHOLDS}


def changed_options(results: Results, setting: Setting) -> set[str]:
    """Return the words in which the setting's mount options differ from the present mount's."""
    if setting.mount_options is None:
        return set()
    present = results.circumstances.node_class.mount_words
    return set(present) ^ set(split_options(setting.mount_options))


def changed_transfer(results: Results, setting: Setting) -> list[str]:
    """Return the settings of the pull itself that differ from the present ones."""
    present = dict(present_setting(results).transfer)
    return [name for name, value in setting.transfer if present.get(name) != value]


def changed_beside_thresholds(results: Results, setting: Setting) -> list[str]:
    """Return what it changes that is no threshold: options, knobs, other sysctls, the pull's."""
    others = [name for name in changed_sysctls(results, setting) if name not in THRESHOLDS]
    return [
        *sorted(changed_options(results, setting)),
        *(name for name, _ in setting.device),
        *others,
        *changed_transfer(results, setting),
    ]


def change_count(results: Results, setting: Setting) -> int:
    """Return how many values a person would have to change for it."""
    thresholds = [name for name in changed_sysctls(results, setting) if name in THRESHOLDS]
    return len(thresholds) + len(changed_beside_thresholds(results, setting))
