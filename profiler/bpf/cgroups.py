"""What a cgroup's directory is to the kernel's filter: an id, and where its hierarchy holds it.

The id of a group is the inode number of its directory (fs/kernfs/dir.c since Linux 5.5, on 64 bits;
`cgroup_id()`). Every hierarchy numbers its groups by itself, so an id alone names no group.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from contracts.shared.errors import UsageError
from contracts.shared.text import printable, quoted
from profiler.bpf.btf import Btf
from sysctl.host.mount_table import Mount, is_below, parse_mountinfo

#: Of version 1: how many groups are looked at, from a task's own one upwards.
LEVELS_MAX = 16
_INITIAL_NAMESPACE = "cgroup:[4026531835]"  # include/linux/proc_ns.h, PROC_CGROUP_INIT_INO
_SUBSYSTEM_SUFFIX = "_cgrp_id"  # include/linux/cgroup-defs.h, enum cgroup_subsys_id
#: Controllers whose name of version 1 is not that of their subsystem (block/blk-cgroup.c).
_LEGACY_NAMES = {"blkio": "io"}
_MEMBERS = {
    "OFFSET_TASK_CGROUPS": ("task_struct", "cgroups"),
    "OFFSET_SET_STATES": ("css_set", "subsys"),
    "OFFSET_STATE_CGROUP": ("cgroup_subsys_state", "cgroup"),
    "OFFSET_STATE_PARENT": ("cgroup_subsys_state", "parent"),
    "OFFSET_CGROUP_NODE": ("cgroup", "kn"),
    "OFFSET_NODE_ID": ("kernfs_node", "id"),
}
_WHERE = (
    "give the absolute path of a group's directory, such as /sys/fs/cgroup/memory/NAME; "
    "/proc/PID/cgroup tells the groups of a process"
)


@dataclass(frozen=True)
class CgroupV2:
    """A group of the unified hierarchy; `level` is its depth, 0 that of the root."""

    cgroup_id: int
    level: int

    @property
    def macros(self) -> dict[str, int]:
        """What `filter.bpf.h` asks for."""
        return {"FILTER_CGROUP_V2": 1, "CGROUP_ID": self.cgroup_id, "CGROUP_LEVEL": self.level}

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The structure members that it reads: none."""
        return {}


@dataclass(frozen=True)
class CgroupV1:
    """A group of version 1; `subsystem` is the kernel's number of a controller of its hierarchy."""

    cgroup_id: int
    subsystem: int

    @property
    def macros(self) -> dict[str, int]:
        """What `filter.bpf.h` asks for."""
        levels = {"CGROUP_SUBSYSTEM": self.subsystem, "CGROUP_LEVELS_MAX": LEVELS_MAX}
        return {"FILTER_CGROUP_V1": 1, "CGROUP_ID": self.cgroup_id, **levels}

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The structure members that it reads, as `Probe.members`."""
        return _MEMBERS


Cgroup = Union[CgroupV1, CgroupV2]


def resolve(path: str, proc: Path = Path("/proc/self")) -> Cgroup:
    """The group whose directory `path` (absolute, a symlink at its end not followed) is now.

    `proc` has this process's mount table and namespaces. Raises UsageError when it is no group or
    not one to filter by, RequirementError when the kernel does not describe its controllers.
    """
    descriptor = _open_directory(path)
    try:
        status = os.fstat(descriptor)
        place = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    finally:
        os.close(descriptor)
    mount = _mount_of(place, status.st_dev, proc)
    if mount is None:
        raise UsageError(f"{printable(path)} is on no cgroup file system", _WHERE)
    if mount.fstype == "cgroup2":
        return CgroupV2(status.st_ino, _level(path, place, mount, proc))
    return CgroupV1(status.st_ino, _subsystem(path, mount))


def _open_directory(path: str) -> int:
    """A descriptor of the directory. Raises UsageError when it is none."""
    if not path.startswith("/"):
        raise UsageError(f"the cgroup's path {quoted(path)} is not absolute", _WHERE)
    try:
        # A slash at the end would have the symlink before it followed.
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path.rstrip("/") or "/", flags)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"the cgroup {printable(path)} cannot be filtered by: {reason}"
        raise UsageError(message, _WHERE) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISLNK(mode):
        message = f"the cgroup {printable(path)} is a symbolic link, which is not followed"
        raise UsageError(message, "give the directory that it leads to")
    raise UsageError(f"the cgroup {printable(path)} is not a directory", _WHERE)


def _mount_of(place: str, device: int, proc: Path) -> Mount | None:
    """The cgroup mount that holds the directory, if it is on one."""
    mounts = parse_mountinfo(os.fsdecode((proc / "mountinfo").read_bytes()))
    number = f"{os.major(device)}:{os.minor(device)}"
    holding = [
        mount
        for mount in mounts
        if mount.device == number
        and mount.fstype in ("cgroup", "cgroup2")
        and is_below(place, mount.target)
    ]
    return max(holding, key=lambda mount: len(mount.target), default=None)


def _level(path: str, place: str, mount: Mount, proc: Path) -> int:
    """Depth of the group below the root of the unified hierarchy, which a namespace hides."""
    if str((proc / "ns/cgroup").readlink()) != _INITIAL_NAMESPACE:
        message = f"the depth of the cgroup {printable(path)} is hidden by a cgroup namespace"
        raise UsageError(message, "run Writewise on the host, or in the host's cgroup namespace")
    inside = place[len(mount.target.rstrip("/")) :]
    return len([name for name in f"{mount.root}{inside}".split("/") if name])


def _subsystem(path: str, mount: Mount) -> int:
    """The number of a controller of the hierarchy, all of which have the same groups."""
    numbers = Btf.of_kernel().enumerators("cgroup_subsys_id")
    for option in mount.super_options:
        number = numbers.get(_LEGACY_NAMES.get(option, option) + _SUBSYSTEM_SUFFIX)
        if number is not None:
            return number
    raise _without_controller(path, mount.super_options)


def _without_controller(path: str, options: Sequence[str]) -> UsageError:
    """For a hierarchy that only groups processes, as systemd's, or whose controller is unknown."""
    name = next((option[5:] for option in options if option.startswith("name=")), None)
    if name is None:
        lacks = f"a controller that this kernel's BTF does not name: {printable(','.join(options))}"
    else:
        lacks = f"the hierarchy {quoted(name)}, which has no controller"
    hint = "give the group's directory in a controller's hierarchy, such as memory's or pids'"
    return UsageError(f"the cgroup {printable(path)} is of {lacks}", hint)
