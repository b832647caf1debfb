"""The present settings, and what another setting changes of them, by kind."""

from __future__ import annotations

from dataclasses import dataclass

from sysctl.knobs.mount import split_options
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.vm import THRESHOLDS


@dataclass(frozen=True)
class Baseline:
    """The present settings, with the tunable options that the mount has.

    Without a known run of the present ones the setting names nothing.
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
        """Return the sysctls to which the setting gives another value."""
        present = self.setting.values
        return [name for name, value in setting.sysctls if present.get(name) != value]

    def changed_options(self, setting: Setting) -> set[str]:
        """Return the words in which the setting's mount options differ from the present mount's."""
        if setting.mount_options is None:
            return set()
        return set(self.mount_words) ^ set(split_options(setting.mount_options))

    def changed_transfer(self, setting: Setting) -> list[str]:
        """Return the settings of the pull itself that differ from the present ones."""
        present = dict(self.setting.transfer)
        return [name for name, value in setting.transfer if present.get(name) != value]

    def changed_besides_thresholds(self, setting: Setting) -> list[str]:
        """Return what it changes but thresholds: options, knobs, other sysctls, the pull's."""
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
        """Return how many values a person would have to change for it."""
        return len(self.changed_thresholds(setting)) + len(self.changed_besides_thresholds(setting))
