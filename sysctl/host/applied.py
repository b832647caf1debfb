"""What `writewise apply` changes: kinds of change that stay, and that step aside.

They are journaled as the others are (`sysctl.host.changes`), with the value that was applied beside
the original. What is neither of the two any more was changed by the administrator (or by a program
of his): it is told and left as it is.
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
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR, KNOBS

#: Sysctls that are one setting: of the two pairs only one member each is in force.
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
    """Write-back sysctls as they were (`originals`) and as applied; `at` is when (ISO 8601).

    `stands_for` are the recommended ones where other values were applied in their place, and
    `memory_bytes` is the host's memory (MemTotal) then, 0 where that was not written down.
    """

    kind: ClassVar[str] = "applied-sysctls"
    originals: Mapping[str, int]
    values: Mapping[str, int]
    at: str
    stands_for: Mapping[str, int] = field(default_factory=dict)
    memory_bytes: int = 0

    def undo(self, system: System) -> None:
        """Write back the originals of what still is as it was applied, and read them back."""
        write_writeback(system, self._to_restore(system))

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would write now, in words; None if that is nothing."""
        return _words(self._to_restore(system)) or None

    def left_alone(self, system: System) -> list[str]:
        """A sentence for each setting that somebody else changed since, and what that excludes."""
        changed = [
            f"{_words(present)} is neither what was applied ({_words(applied)}) nor what was there "
            f"before ({_words(original)}): it was changed since, and is left as it is"
            for present, applied, original in self._settings(system)
            if present not in (applied, original)
        ]
        wanted = self._originals_due(system)
        why = self._contradiction(system, wanted)
        if wanted and why:
            changed.append(f"{_words(wanted)} is not restored: beside that {why}")
        return changed

    def _to_restore(self, system: System) -> dict[str, int]:
        """What is due, unless it contradicts what somebody else changed: then none of it."""
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
        """Why the kernel would not take `wanted` next to the rest; None if it would."""
        present = read_writeback(system)
        after = replace_values(present, wanted)
        dirtyable = dirtyable_bytes(system)
        return invalid_reason(after, dirtyable) if after != present else None

    def _settings(
        self, system: System
    ) -> list[tuple[dict[str, int], dict[str, int], dict[str, int]]]:
        """Of each setting that was applied: the present, the applied and the original value."""
        present = read_writeback(system)
        sides = (present, self.values, self.originals)
        return [
            (_of(sides[0], names), _of(sides[1], names), _of(sides[2], names))
            for names in _SETTINGS
            if _of(self.values, names)
        ]

    def __str__(self) -> str:
        recommended = f" (in place of {_words(self.stands_for)})" if self.stands_for else ""
        return _words(self.values) + recommended


def _of(values: Mapping[str, int], names: tuple[str, ...]) -> dict[str, int]:
    return {name: values[name] for name in names if name in values}


@dataclass(frozen=True)
class AppliedKnobs:
    """Knobs of a disk: before, as applied, and `kept`, what brings them back (`kept_values`)."""

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
        """The disk that they are of."""
        return devices.Disk(self.name, self.number, self.sequence)

    def undo(self, system: System) -> None:
        """Write back what was not changed since, if it is still this disk."""
        if devices.is_there(system, self.disk):
            devices.write_kept(system, self.disk, self._to_restore(system))

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would write now, in words; None if that is nothing."""
        if not devices.is_there(system, self.disk):
            return None
        restored = self._to_restore(system)
        return f"{self.name}: {_words(restored)}" if restored else None

    def left_alone(self, system: System) -> list[str]:
        """A sentence for each knob that somebody else changed since."""
        if not devices.is_there(system, self.disk):
            return []
        return [
            f"{self.name} {name} = {devices.read_attribute(system, self.disk, name)} is neither "
            f"what was applied ({self.values[name]}) nor what was there before "
            f"({self.before.get(name, 'unknown')}): it was changed since, and is left as it is"
            for name in self._changed(system)
        ]

    def _changed(self, system: System) -> list[str]:
        """Those that are neither value; a share that is read in bytes moves by itself."""
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
    """What setting these knobs changes: they, their exact attributes, and what they reset."""
    knobs = [DEVICE_BY_NAME[name] for name in names]
    fields = {(k.name, k.exact, k.counterpart, *k.resets) for k in knobs}
    coarse = {k.exact.replace("_fine", "") for k in knobs}
    return {name for each in fields for name in each if name} | coarse - {""}


@dataclass(frozen=True)
class AppliedMount:
    """A mount as it was (`options`), and the words with which it was remounted."""

    kind: ClassVar[str] = "applied-mount"
    target: str
    source: str
    fstype: str
    options: tuple[str, ...]
    words: tuple[str, ...]
    at: str

    def undo(self, system: System) -> None:
        """Remount it as it was, if it still is as it was applied."""
        if self._is_ours(system):
            mounts.restore(system, self.target, self.source, self.fstype, tuple(self.options))

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would do now, in words; None if that is nothing."""
        is_due = self._is_ours(system) and not self._is_original(system)
        return f"{self.target} mounted with {','.join(self.options)}" if is_due else None

    def left_alone(self, system: System) -> list[str]:
        """A sentence, when it was mounted in another way since."""
        if self._is_ours(system) or self._is_original(system):
            return []
        return [f"{self.target} was mounted in another way since, and is left as it is"]

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
    """A file that was written, what it replaced (None: nothing), and the temporary file."""

    kind: ClassVar[str] = "written-file"
    path: str
    temporary: str
    text: str
    previous: str | None
    at: str

    @property
    def sysctls(self) -> dict[str, int]:
        """What it sets at a boot, if it is our file of sysctl.d."""
        return {name: int(value) for name, value in _ASSIGNMENT.findall(self.text)}

    def undo(self, system: System) -> None:
        """Delete it or write back what it replaced, unless it was edited since."""
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
        """A sentence, when it was edited since."""
        if read_file(system, self.path) in (self.text, self.previous, None):
            return []
        return [f"{self.path} was edited since, and is left as it is"]

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class TrialPeriod:
    """A timer of systemd's that runs `writewise rollback --trial` at `ends_at` (ISO 8601)."""

    kind: ClassVar[str] = "trial-period"
    unit: str
    ends_at: str

    def undo(self, system: System) -> None:
        """Stop the timer, if it is there: it is a transient one, and gone once it has elapsed."""
        if system.exists(f"{TRANSIENT_UNITS}/{self.unit}.timer"):
            system.run(["systemctl", "stop", f"{self.unit}.timer"])

    def restoring(self, system: System) -> str | None:
        """Return what `undo` would do now, in words; None if that is nothing.

        Once the timer has elapsed there is the service, which tries again while a lock is held.
        """
        is_there = any(
            system.exists(f"{TRANSIENT_UNITS}/{self.unit}.{kind}") for kind in ("timer", "service")
        )
        return f"no trial period until {self.ends_at}" if is_there else None

    def left_alone(self, system: System) -> list[str]:
        """Nothing: the timer is ours alone."""
        return []

    def __str__(self) -> str:
        return f"a trial period until {self.ends_at}"
