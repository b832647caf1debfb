# SPDX-License-Identifier: Apache-2.0
"""A cgroup as the kernel's filter identifies it: by an id, and its place in a hierarchy.

The id of a group is the inode number of its directory (fs/kernfs/dir.c since Linux 5.5, on 64 bits;
`cgroup_id()`). Each hierarchy has its own ids, so an id alone does not identify a group.
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

#: Version 1: how many groups are checked, from a task's own group upwards.
LEVELS_MAX = 16
_INITIAL_NAMESPACE = "cgroup:[4026531835]"  # include/linux/proc_ns.h, PROC_CGROUP_INIT_INO
_SUBSYSTEM_SUFFIX = "_cgrp_id"  # include/linux/cgroup-defs.h, enum cgroup_subsys_id
#: Controllers whose name in version 1 differs from that of their subsystem (block/blk-cgroup.c).
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
    "pass the absolute path of a group's directory, such as /sys/fs/cgroup/memory/NAME; "
    "/proc/PID/cgroup lists the groups of a process"
)


@dataclass(frozen=True)
class CgroupV2:
    """A group of the unified hierarchy; `level` is its depth, 0 for the root."""

    cgroup_id: int
    level: int

    @property
    def macros(self) -> dict[str, int]:
        """The macros for `filter.bpf.h`."""
        return {"FILTER_CGROUP_V2": 1, "CGROUP_ID": self.cgroup_id, "CGROUP_LEVEL": self.level}

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The structure members that the filter reads: none."""
        return {}


@dataclass(frozen=True)
class CgroupV1:
    """A group of version 1; `subsystem` is the number of a controller of its hierarchy."""

    cgroup_id: int
    subsystem: int

    @property
    def macros(self) -> dict[str, int]:
        """The macros for `filter.bpf.h`."""
        levels = {"CGROUP_SUBSYSTEM": self.subsystem, "CGROUP_LEVELS_MAX": LEVELS_MAX}
        return {"FILTER_CGROUP_V1": 1, "CGROUP_ID": self.cgroup_id, **levels}

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The structure members that the filter reads, as in `Probe.members`."""
        return _MEMBERS


Cgroup = Union[CgroupV1, CgroupV2]


def resolve(path: str, proc: Path = Path("/proc/self")) -> Cgroup:
    """Return the group whose directory is `path` (absolute; a final symlink is not followed).

    `proc` contains this process's mount table and namespaces. Raises UsageError if it is not a
    group that can be used as a filter, RequirementError if the kernel does not describe its
    controllers.
    """
    descriptor = _open_directory(path)
    try:
        status = os.fstat(descriptor)
        place = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    finally:
        os.close(descriptor)
    mount = _mount_of(place, status.st_dev, proc)
    if mount is None:
        raise UsageError(f"{printable(path)} is not on a cgroup file system", _WHERE)
    if mount.fstype == "cgroup2":
        return CgroupV2(status.st_ino, _level(path, place, mount, proc))
    return CgroupV1(status.st_ino, _subsystem(path, mount))


def _open_directory(path: str) -> int:
    """Return a descriptor of the directory. Raises UsageError if it is not one."""
    if not path.startswith("/"):
        raise UsageError(f"the cgroup's path {quoted(path)} is not absolute", _WHERE)
    try:
        # With a slash at the end, the symlink before it would be followed.
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path.rstrip("/") or "/", flags)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"the cgroup {printable(path)} cannot be used as a filter: {reason}"
        raise UsageError(message, _WHERE) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISLNK(mode):
        message = f"the cgroup {printable(path)} is a symbolic link, which is not followed"
        raise UsageError(message, "pass the directory that it points to")
    raise UsageError(f"the cgroup {printable(path)} is not a directory", _WHERE)


def _mount_of(place: str, device: int, proc: Path) -> Mount | None:
    """Return the cgroup mount that contains the directory; None without one."""
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
    """Return the group's depth below the root of the unified hierarchy. Raises UsageError."""
    if str((proc / "ns/cgroup").readlink()) != _INITIAL_NAMESPACE:
        message = f"a cgroup namespace hides the depth of the cgroup {printable(path)}"
        raise UsageError(message, "run Writewise on the host, or in the host's cgroup namespace")
    inside = place[len(mount.target.rstrip("/")) :]
    return len([name for name in f"{mount.root}{inside}".split("/") if name])


def _subsystem(path: str, mount: Mount) -> int:
    """Return the number of any controller of the hierarchy: all have the same groups."""
    numbers = Btf.of_kernel().enumerators("cgroup_subsys_id")
    for option in mount.super_options:
        number = numbers.get(_LEGACY_NAMES.get(option, option) + _SUBSYSTEM_SUFFIX)
        if number is not None:
            return number
    raise _without_controller(path, mount.super_options)


def _without_controller(path: str, options: Sequence[str]) -> UsageError:
    """Return the error for a hierarchy with no controller, such as systemd's, or an unknown one."""
    name = next((option[5:] for option in options if option.startswith("name=")), None)
    if name is None:
        where = f"a controller that this kernel's BTF lacks: {printable(','.join(options))}"
    else:
        where = f"the hierarchy {quoted(name)}, which has no controller"
    hint = "pass the group's directory in a controller's hierarchy, such as memory or pids"
    return UsageError(f"the cgroup {printable(path)} belongs to {where}", hint)
