"""What the trials of a sweep say about mount options: only beside the present mount do they count.

A mount option that is tried together with other sysctls may look good for their sake. So it is
judged at the same sysctls with and without it, and counts where it was faster each time.
"""

from __future__ import annotations

import statistics

from sysctl.knobs.mount import split_options
from sysctl.results import CANDIDATE, RECHECK, Results
from sysctl.setting import Setting

#: By how much a change of mount options must be faster, at every setting of the sysctls.
MOUNT_GAIN = 0.05


def changed_options(results: Results, setting: Setting) -> set[str]:
    """The mount option words in which a setting differs from the present mount."""
    if setting.mount_options is None:
        return set()
    present = set(results.context.get("mount_words", ()))
    return present ^ set(split_options(setting.mount_options))


def mount_ratios(results: Results, mount_options: str | None) -> list[float]:
    """Times under `mount_options` divided by those under the present mount, at the same sysctls."""
    tried = results.derived(_by_mount)
    without = tried.get(None, {})
    return [
        time_ratio(results, setting, without[rest])
        for rest, setting in tried.get(mount_options, {}).items()
        if rest in without and mount_options is not None
    ]


def _by_mount(results: Results) -> dict[str | None, dict[object, Setting]]:
    """The valid candidates by mount options (None: the present ones), then by all the rest."""
    tried: dict[str | None, dict[object, Setting]] = {}
    for trial in results.of_role(CANDIDATE):
        if trial.valid:
            setting = trial.setting
            options = setting.mount_options if changed_options(results, setting) else None
            tried.setdefault(options, {})[setting.sysctls, setting.device, setting.transfer] = (
                setting
            )
    return tried


def time_ratio(results: Results, setting: Setting, base: Setting) -> float:
    """The time to return of a setting divided by that of another that ran as well.

    By the medians of the recheck where both were measured again, else by the search's runs.
    """
    both = [[t for t in results.of_setting(each) if t.valid] for each in (setting, base)]
    again = [[t for t in trials if t.role == RECHECK] for trials in both]
    searched = [[t for t in trials if t.pair is None] for trials in both]
    times_s = [
        statistics.median(t.valid.return_s for t in trials if t.valid)
        for trials in (again if all(again) else searched)
    ]
    return times_s[0] / times_s[1]


def is_worth_its_mount(results: Results, setting: Setting) -> bool:
    """Whether nothing speaks against the setting's mount options.

    True where the mount is the present one, or where no sysctls were tried both with and without.
    """
    if not changed_options(results, setting):
        return True
    ratios = mount_ratios(results, setting.mount_options)
    return not ratios or max(ratios) < 1 - MOUNT_GAIN
