# SPDX-License-Identifier: Apache-2.0
"""The current settings, and what another setting changes, by kind."""

from __future__ import annotations

from dataclasses import dataclass

from sysctl.knobs.mount import split_options
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.vm import THRESHOLDS


@dataclass(frozen=True)
class Baseline:
    """The current settings, with the tunable options of the mount.

    Without a run of the current settings the setting names nothing.
    """

    setting: Setting
    mount_words: tuple[str, ...] = ()

    def values_with(self, setting: Setting) -> dict[str, int]:
        """Return the sysctls in force with a setting."""
        return replace_values(self.setting.values, setting.values)

    def thresholds_with(self, setting: Setting) -> dict[str, int]:
        """Return the thresholds in force with it, by sysctl."""
        values = self.values_with(setting)
        return {name: value for name, value in values.items() if name in THRESHOLDS}

    def changed_sysctls(self, setting: Setting) -> list[str]:
        """Return the sysctls whose values the setting changes."""
        present = self.setting.values
        return [name for name, value in setting.sysctls if present.get(name) != value]

    def changed_options(self, setting: Setting) -> set[str]:
        """Return the words in which the setting's mount options differ from the current ones."""
        if setting.mount_options is None:
            return set()
        return set(self.mount_words) ^ set(split_options(setting.mount_options))

    def changed_transfer(self, setting: Setting) -> list[str]:
        """Return the transfer settings that differ from the current ones."""
        present = dict(self.setting.transfer)
        return [name for name, value in setting.transfer if present.get(name) != value]

    def changed_besides_thresholds(self, setting: Setting) -> list[str]:
        """Return its other changes: mount options, knobs, other sysctls, transfer settings."""
        others = [name for name in self.changed_sysctls(setting) if name not in THRESHOLDS]
        return [
            *sorted(self.changed_options(setting)),
            *(name for name, _ in setting.device),
            *others,
            *self.changed_transfer(setting),
        ]

    def changed_thresholds(self, setting: Setting) -> list[str]:
        """Return the thresholds that it changes."""
        return [name for name in self.changed_sysctls(setting) if name in THRESHOLDS]

    def change_count(self, setting: Setting) -> int:
        """Return the number of values that it changes."""
        return len(self.changed_thresholds(setting)) + len(self.changed_besides_thresholds(setting))
