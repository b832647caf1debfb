# SPDX-License-Identifier: Apache-2.0
"""The kinds of change to a host: what is journaled, how it is described, how it is undone.

A change is journaled *before* it is made, so `undo` must work whether the change was made, partly
made or never made, and also if it is called twice.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Union, get_args

from sysctl.host import devices, mounts
from sysctl.host.applied import (
    TRANSIENT_UNITS,
    AppliedKnobs,
    AppliedMount,
    AppliedSysctls,
    TrialPeriod,
    WrittenFile,
)
from sysctl.host.mount_table import is_below, mount_at
from sysctl.host.raised import RaisedThresholds
from sysctl.host.sysctls import read_sysctl, write_sysctl, write_writeback
from sysctl.host.system import HostError, System, host_errors, sync_writable_directory

#: Trial directories have this prefix; nothing else below a destination is ever deleted.
TRIAL_PREFIX = ".writewise-trial-"


@dataclass(frozen=True)
class WritebackOriginals:
    """The write-back sysctls before a change; of each ratio/bytes pair the non-zero member."""

    kind: ClassVar[str] = "writeback-sysctls"
    values: Mapping[str, int]

    def undo(self, system: System) -> None:
        """Restore the originals in a safe order and read them back."""
        write_writeback(system, self.values)

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())


@dataclass(frozen=True)
class SysctlOriginal:
    """One other sysctl before a change."""

    kind: ClassVar[str] = "sysctl"
    name: str
    value: int

    def undo(self, system: System) -> None:
        """Restore the original and read it back."""
        if read_sysctl(system, self.name) != self.value:
            write_sysctl(system, self.name, self.value)

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


@dataclass(frozen=True)
class DeviceOriginals:
    """The knobs of one disk before a change (`sysctl.host.devices.Disk`), by attribute."""

    kind: ClassVar[str] = "device-attributes"
    name: str
    number: str
    sequence: str
    values: Mapping[str, str]

    @property
    def disk(self) -> devices.Disk:
        """The disk of the knobs."""
        return devices.Disk(self.name, self.number, self.sequence)

    def undo(self, system: System) -> None:
        """Restore the originals if it is still the same disk: another may have its name now."""
        if devices.is_there(system, self.disk):
            devices.write_kept(system, self.disk, self.values)

    def __str__(self) -> str:
        return f"{self.name}: " + ", ".join(f"{name} = {v}" for name, v in self.values.items())


@dataclass(frozen=True)
class MountOriginal:
    """How a volume was mounted before its options were changed or it was unmounted.

    `uuid` is that of its file system, if it has one: another volume may have the device's name
    later.
    """

    kind: ClassVar[str] = "mount-options"
    target: str
    source: str
    fstype: str
    options: tuple[str, ...]
    uuid: str = ""

    def undo(self, system: System) -> None:
        """Mount the volume as before, unless its mount point is gone (that of a lab)."""
        if mount_at(system.mounts(), self.target) is None:
            if not system.exists(self.target):
                return
            mounts.check_file_system(system, self.target, self.source, self.uuid)
        mounts.restore(system, self.target, self.source, self.fstype, tuple(self.options))

    def __str__(self) -> str:
        return f"{self.target} mounted with {','.join(self.options)}"


@dataclass(frozen=True)
class NewMount:
    """A mount that did not exist before."""

    kind: ClassVar[str] = "new-mount"
    target: str

    def undo(self, system: System) -> None:
        """Unmount it if it is mounted."""
        while mount_at(system.mounts(), self.target):
            mounts.unmount(system, self.target)

    def __str__(self) -> str:
        return f"nothing mounted on {self.target}"


@dataclass(frozen=True)
class LoopDevice:
    """A loop device that was attached to a file of ours."""

    kind: ClassVar[str] = "loop-device"
    backing_file: str

    def undo(self, system: System) -> None:
        """Detach every loop device of that file."""
        for device in mounts.loop_devices_of(system, self.backing_file):
            system.run(["losetup", "--detach", device])

    def __str__(self) -> str:
        return f"no loop device for {self.backing_file}"


@dataclass(frozen=True)
class StackedLoopDevice:
    """A loop device that was attached to the loop device of a file of ours."""

    kind: ClassVar[str] = "stacked-loop-device"
    backing_file: str

    def undo(self, system: System) -> None:
        """Detach every loop device of that file's: not by a name, which may be another's now."""
        for lower in mounts.loop_devices_of(system, self.backing_file):
            LoopDevice(lower).undo(system)

    def __str__(self) -> str:
        return f"no loop device on that of {self.backing_file}"


@dataclass(frozen=True)
class NewPath:
    """A file or folder that did not exist before, in a private directory or a trial directory.

    `mounted_on` is the mount point of the volume with the trial directory.
    """

    kind: ClassVar[str] = "new-path"
    path: str
    mounted_on: str = ""

    def undo(self, system: System) -> None:
        """Delete it with its content, without following symlinks or entering mounts."""
        path = system.path(self.path)
        if self._is_out_of_reach(system):
            raise HostError(f"cannot delete {self.path}: nothing is mounted on {self.mounted_on}")
        with host_errors(f"delete {self.path}"):
            if system.exists(self.path):
                self._delete(system, path)
            # even if it is missing: on a failed device it may be deleted only in memory
            if self.mounted_on and path.parent.is_dir():
                sync_writable_directory(path.parent)  # the journal is on another disk

    def _delete(self, system: System, path: Path) -> None:
        held = [m.target for m in system.mounts() if is_below(m.target, self.path)]
        if held:
            raise HostError(f"cannot delete {self.path}: {held[0]} is still mounted")
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            shutil.rmtree(path)

    def _is_out_of_reach(self, system: System) -> bool:
        """Return whether its volume is not mounted; a missing mount point (of a lab) is fine."""
        if not self.mounted_on or mount_at(system.mounts(), self.mounted_on):
            return False
        return system.exists(self.mounted_on)

    def __str__(self) -> str:
        return f"no {self.path}"


@dataclass(frozen=True)
class DeviceCap:
    """A cap on a device that had none: a cgroup file, the lines that set and clear the cap.

    `other_settings` are lines that may replace `setting_line` later (`Host.change_cap`).
    """

    kind: ClassVar[str] = "device-cap"
    path: str
    setting_line: str
    clearing_line: str
    other_settings: tuple[str, ...] = ()

    def is_in_force(self, system: System) -> bool:
        """Return whether the file has one of the lines."""
        if not system.exists(self.path):
            return False
        present = system.read(self.path).splitlines()
        return any(line in present for line in (self.setting_line, *self.other_settings))

    def undo(self, system: System) -> None:
        """Clear the cap if it is still ours: another device may have the number now."""
        if self.is_in_force(system):
            system.write(self.path, self.clearing_line)

    def __str__(self) -> str:
        return f"no cap on device {self.clearing_line.split()[0]} in {Path(self.path).name}"


@dataclass(frozen=True)
class LiftedCap:
    """A temporarily cleared cap on a loop device of ours: a cgroup file and its line."""

    kind: ClassVar[str] = "lifted-cap"
    path: str
    setting_line: str
    backing_file: str

    def undo(self, system: System) -> None:
        """Set it again if the device is still that of the file: its number may be reused."""
        number = self.setting_line.split()[0]
        holder = f"/sys/dev/block/{number}/loop/backing_file"
        is_ours = system.exists(holder) and system.read(holder) == self.backing_file
        if is_ours and system.exists(self.path):
            system.write(self.path, self.setting_line)

    def __str__(self) -> str:
        return f"the cap {self.setting_line} in {Path(self.path).name}"


@dataclass(frozen=True)
class NewGroup:
    """A control group (v2) that did not exist before."""

    kind: ClassVar[str] = "new-cgroup"
    path: str

    def undo(self, system: System) -> None:
        """Move its processes to its parent and remove it."""
        if not system.exists(self.path):
            return
        _move_to_parent(system, self.path)
        with host_errors(f"remove the control group {self.path}"):
            system.path(self.path).rmdir()

    def __str__(self) -> str:
        return f"no control group {Path(self.path).name}"


@dataclass(frozen=True)
class NewSlice:
    """A transient slice of systemd that did not exist before, and its control group (v2)."""

    kind: ClassVar[str] = "new-slice"
    unit: str
    path: str

    def undo(self, system: System) -> None:
        """Move its processes to its parent and stop it; systemd then removes the group."""
        if system.exists(self.path):
            _move_to_parent(system, self.path)
        if system.exists(f"{TRANSIENT_UNITS}/{self.unit}"):
            system.run(["systemctl", "stop", self.unit])

    def __str__(self) -> str:
        return f"no control group {self.unit}"


def _move_to_parent(system: System, group: str) -> None:
    for pid in system.read(f"{group}/cgroup.procs").split():
        try:
            system.write(f"{Path(group).parent}/cgroup.procs", pid)
        except HostError:
            if system.exists(f"/proc/{pid}"):  # a process that has ended need not move
                raise


@dataclass(frozen=True)
class GroupController:
    """A controller (v2) that was not enabled for the groups below a folder."""

    kind: ClassVar[str] = "cgroup-controller"
    path: str
    controller: str

    def undo(self, system: System) -> None:
        """Disable it again."""
        if self.controller in system.read(self.path).split():
            system.write(self.path, f"-{self.controller}")

    def __str__(self) -> str:
        return f"controller {self.controller} not in {self.path}"


@dataclass(frozen=True)
class ChildProcess:
    """A process that outlives the program that started it, identified by pid and start time."""

    kind: ClassVar[str] = "process"
    pid: int
    start_ticks: int

    def undo(self, system: System) -> None:
        """End it with SIGTERM, after two seconds with SIGKILL; not another process of that pid."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _ in range(40):
                if system.process_start_ticks(self.pid) != self.start_ticks:
                    return
                _signal(self.pid, number)
                system.sleep(0.05)
        raise HostError(f"process {self.pid} does not end")

    def __str__(self) -> str:
        return f"no process {self.pid}"


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        return


#: Changes whose `undo` does not touch what was changed since; all but the last stay.
Applied = (AppliedSysctls, AppliedKnobs, AppliedMount, WrittenFile, TrialPeriod, RaisedThresholds)

Change = Union[
    AppliedSysctls,
    AppliedKnobs,
    AppliedMount,
    WrittenFile,
    TrialPeriod,
    RaisedThresholds,
    WritebackOriginals,
    SysctlOriginal,
    DeviceOriginals,
    MountOriginal,
    NewMount,
    LoopDevice,
    StackedLoopDevice,
    NewPath,
    DeviceCap,
    LiftedCap,
    NewGroup,
    NewSlice,
    GroupController,
    ChildProcess,
]
KINDS: tuple[type[Change], ...] = get_args(Change)


def _are_all(values: Any, of: type) -> bool:
    return all(isinstance(value, of) for value in values)


def _is_mapping(value: Any, of: type) -> bool:
    return isinstance(value, dict) and _are_all(value, str) and _are_all(value.values(), of)


#: Checks of a journal's values by annotation; a bool counts as int, which is harmless.
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "str | None": lambda value: value is None or isinstance(value, str),
    "int": lambda value: isinstance(value, int),
    "tuple[int, ...]": lambda value: isinstance(value, tuple) and _are_all(value, int),
    "tuple[str, ...]": lambda value: isinstance(value, tuple) and _are_all(value, str),
    "Mapping[str, int]": lambda value: _is_mapping(value, int),
    "Mapping[str, str]": lambda value: _is_mapping(value, str),
}


def _check_types(kind: type[Change], values: Mapping[str, Any]) -> None:
    for field in fields(kind):
        if field.name in values and not _FITS[str(field.type)](values[field.name]):
            raise HostError(
                f"the journal is damaged: {field.name} of a change of kind {kind.kind!r}",
                "restore by hand what the journal lists, then remove the file",
            )


def to_json(change: Change) -> dict[str, Any]:
    """Return a change as JSON for the journal."""
    return {"kind": change.kind, **asdict(change)}


def from_json(data: Mapping[str, Any]) -> Change:
    """Return a change of the journal. Raises HostError for an unknown kind."""
    values = dict(data)
    kind = values.pop("kind", None)
    for known in KINDS:
        names = {field.name for field in fields(known)}
        needed = {
            field.name
            for field in fields(known)
            if field.default is MISSING and field.default_factory is MISSING
        }
        if known.kind == kind and needed <= values.keys() <= names:
            for name, value in values.items():
                values[name] = tuple(value) if isinstance(value, list) else value
            _check_types(known, values)
            return known(**values)
    raise HostError(
        f"the journal has a change of kind {kind!r}, which this version cannot revert",
        "use the version of Writewise that wrote it",
    )
