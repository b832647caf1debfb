# SPDX-License-Identifier: Apache-2.0
"""The kinds of change of `writewise apply`, which stay after the program.

They are journaled like the others (`sysctl.host.changes`), with both the applied and the original
value. A value that is neither of the two was changed by the administrator or another program: it is
reported and not restored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from sysctl.host import devices, mounts
from sysctl.host.mount_table import mount_at
from sysctl.host.root_file import read_file, remove_file, replace_file
from sysctl.host.sysctls import dirtyable_bytes, read_writeback, write_writeback
from sysctl.host.system import System
from sysctl.knobs.catalogue import DEVICE_BY_NAME
from sysctl.knobs.setting import invalid_reason, replace_values
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR, KNOBS, THRESHOLDS

#: The groups of sysctls that are one setting: only one member of each pair is in force.
_SETTINGS: tuple[tuple[str, ...], ...] = (
    DIRTY_PAIR,
    BACKGROUND_PAIR,
    *((knob.name,) for knob in KNOBS if knob.counterpart is None),
)
#: A line of our own file in /etc/sysctl.d (`sysctl/render/sysctl_d.py`).
_ASSIGNMENT = re.compile(r"^(vm\.[a-z_]+) = ([0-9]+)$", re.MULTILINE)
TRANSIENT_UNITS = "/run/systemd/transient"


def _words(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


@dataclass(frozen=True)
class AppliedSysctls:
    """The original and the applied write-back sysctls; `at` is the time (ISO 8601).

    `stands_for` has the recommended values if others were applied instead. `memory_bytes` is the
    host's memory (MemTotal) at that time, 0 if it was not recorded.
    """

    kind: ClassVar[str] = "applied-sysctls"
    originals: Mapping[str, int]
    values: Mapping[str, int]
    at: str
    stands_for: Mapping[str, int] = field(default_factory=dict)
    memory_bytes: int = 0

    def undo(self, system: System) -> None:
        """Restore the originals of values that are still as applied, and read them back."""
        write_writeback(system, self._to_restore(system))

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would write now, in words; None if that is nothing."""
        return _words(self._to_restore(system)) or None

    def left_alone(self, system: System) -> list[str]:
        """Return a sentence for each setting that was changed since, and for what that excludes."""
        changed = [
            f"{_words(present)} is neither the applied value ({_words(applied)}) nor the original "
            f"({_words(original)}): it was changed since and is not restored"
            for present, applied, original in self._settings(system)
            if present not in (applied, original)
        ]
        wanted = self._originals_due(system)
        why = self._contradiction(system, wanted)
        if wanted and why:
            changed.append(f"{_words(wanted)} is not restored: with that, {why}")
        return changed

    def _to_restore(self, system: System) -> dict[str, int]:
        """Return the originals to restore; none if they contradict a value changed since."""
        wanted = self._originals_due(system)
        return {} if self._contradiction(system, wanted) else wanted

    def _originals_due(self, system: System) -> dict[str, int]:
        return {
            name: value
            for present, applied, original in self._settings(system)
            if present == applied != original
            for name, value in original.items()
        }

    def _contradiction(self, system: System, wanted: Mapping[str, int]) -> str | None:
        """Return why the kernel would not use `wanted` with the other values; None if it would.

        Thresholds that are all the originals are restored, whatever the kernel makes of them.
        """
        present = read_writeback(system)
        after = replace_values(present, wanted)
        if after == present or _thresholds(after) == _thresholds(self.originals):
            return None
        return invalid_reason(after, dirtyable_bytes(system))

    def _settings(
        self, system: System
    ) -> list[tuple[dict[str, int], dict[str, int], dict[str, int]]]:
        """Return the current, the applied and the original value of each applied setting."""
        present = read_writeback(system)
        sides = (present, self.values, self.originals)
        return [
            (_of(sides[0], names), _of(sides[1], names), _of(sides[2], names))
            for names in _SETTINGS
            if _of(self.values, names)
        ]

    def __str__(self) -> str:
        recommended = f" (instead of {_words(self.stands_for)})" if self.stands_for else ""
        return _words(self.values) + recommended


def _of(values: Mapping[str, int], names: tuple[str, ...]) -> dict[str, int]:
    return {name: values[name] for name in names if name in values}


def _thresholds(values: Mapping[str, int]) -> dict[str, int]:
    return _of(values, THRESHOLDS)


@dataclass(frozen=True)
class AppliedKnobs:
    """Knobs of a disk: original and applied values, and `kept`, which restores (`kept_values`)."""

    kind: ClassVar[str] = "applied-knobs"
    name: str
    number: str
    sequence: str
    before: Mapping[str, str]
    values: Mapping[str, str]
    kept: Mapping[str, str]
    at: str

    @property
    def disk(self) -> devices.Disk:
        """The disk of the knobs."""
        return devices.Disk(self.name, self.number, self.sequence)

    def undo(self, system: System) -> None:
        """Restore what was not changed since, if it is still the same disk."""
        if devices.is_there(system, self.disk):
            devices.write_kept(system, self.disk, self._to_restore(system))

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would write now, in words; None if that is nothing."""
        if not devices.is_there(system, self.disk):
            return None
        restored = self._to_restore(system)
        return f"{self.name}: {_words(restored)}" if restored else None

    def left_alone(self, system: System) -> list[str]:
        """Return a sentence for each knob that was changed since."""
        if not devices.is_there(system, self.disk):
            return []
        return [
            f"{self.name} {name} = {devices.read_attribute(system, self.disk, name)} is neither "
            f"the applied value ({self.values[name]}) nor the original "
            f"({self.before.get(name, 'unknown')}): it was changed since and is not restored"
            for name in self._changed(system)
        ]

    def _changed(self, system: System) -> list[str]:
        """Return the knobs that have neither value; shares in bytes change on their own."""
        return [
            name
            for name, value in self.values.items()
            if not DEVICE_BY_NAME[name].is_rounded
            and devices.read_attribute(system, self.disk, name)
            not in (value, self.before.get(name))
        ]

    def _to_restore(self, system: System) -> dict[str, str]:
        changed = self._changed(system)
        spared = touched(changed) - touched([n for n in self.values if n not in changed])
        return {name: value for name, value in self.kept.items() if name not in spared | {*changed}}

    def __str__(self) -> str:
        return f"{self.name}: {_words(self.values)}"


def touched(names: list[str]) -> set[str]:
    """Return all attributes that setting these knobs changes, also exact ones and resets."""
    knobs = [DEVICE_BY_NAME[name] for name in names]
    fields = {(k.name, k.exact, k.counterpart, *k.resets) for k in knobs}
    coarse = {k.exact.replace("_fine", "") for k in knobs}
    return {name for each in fields for name in each if name} | coarse - {""}


@dataclass(frozen=True)
class AppliedMount:
    """A mount's original `options`, and the words with which it was remounted."""

    kind: ClassVar[str] = "applied-mount"
    target: str
    source: str
    fstype: str
    options: tuple[str, ...]
    words: tuple[str, ...]
    at: str

    def undo(self, system: System) -> None:
        """Remount it with its original options, if it still has the applied ones."""
        if self._is_ours(system):
            mounts.restore(system, self.target, self.source, self.fstype, tuple(self.options))

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would do now, in words; None if that is nothing."""
        is_due = self._is_ours(system) and not self._is_original(system)
        return f"{self.target} mounted with {','.join(self.options)}" if is_due else None

    def left_alone(self, system: System) -> list[str]:
        """Return a sentence if it was mounted with other options since."""
        if self._is_ours(system) or self._is_original(system):
            return []
        return [f"{self.target} was mounted with other options since and is not restored"]

    def _is_ours(self, system: System) -> bool:
        mount = mount_at(system.mounts(), self.target)
        if mount is None or mount.source != self.source:
            return False
        return not mounts.missing_words(system, self.target, self.words)

    def _is_original(self, system: System) -> bool:
        mount = mount_at(system.mounts(), self.target)
        return mount is not None and set(mount.all_options) == set(self.options)

    def __str__(self) -> str:
        return f"{self.target} mounted with {','.join(self.words)}"


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written, its previous text (None: no file), and the temporary file."""

    kind: ClassVar[str] = "written-file"
    path: str
    temporary: str
    text: str
    previous: str | None
    at: str

    @property
    def sysctls(self) -> dict[str, int]:
        """The sysctls that it sets at boot, if it is our file of sysctl.d."""
        return {name: int(value) for name, value in _ASSIGNMENT.findall(self.text)}

    def undo(self, system: System) -> None:
        """Delete it or restore the previous text, unless it was edited since."""
        remove_file(system, self.temporary)
        if read_file(system, self.path) != self.text or self.text == self.previous:
            return
        if self.previous is None:
            remove_file(system, self.path)
        else:
            replace_file(system, self.path, self.previous, self.temporary)

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would do now, in words; None if that is nothing."""
        if read_file(system, self.path) != self.text:
            return None
        return f"no {self.path}" if self.previous is None else f"{self.path} as it was before"

    def left_alone(self, system: System) -> list[str]:
        """Return a sentence if it was edited since."""
        if read_file(system, self.path) in (self.text, self.previous, None):
            return []
        return [f"{self.path} was edited since and is not restored"]

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class TrialPeriod:
    """A timer of systemd that runs `writewise rollback --trial` at `ends_at` (ISO 8601)."""

    kind: ClassVar[str] = "trial-period"
    unit: str
    ends_at: str

    def undo(self, system: System) -> None:
        """Stop the timer if it exists; a transient timer disappears when it elapses."""
        if system.exists(f"{TRANSIENT_UNITS}/{self.unit}.timer"):
            system.run(["systemctl", "stop", f"{self.unit}.timer"])

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would do now, in words; None if that is nothing.

        When the timer has elapsed, the service remains and retries while the lock is held.
        """
        is_there = any(
            system.exists(f"{TRANSIENT_UNITS}/{self.unit}.{kind}") for kind in ("timer", "service")
        )
        return f"no trial period until {self.ends_at}" if is_there else None

    def left_alone(self, system: System) -> list[str]:
        """Return nothing: only Writewise uses the timer."""
        return []

    def __str__(self) -> str:
        return f"a trial period until {self.ends_at}"
