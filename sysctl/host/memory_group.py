# SPDX-License-Identifier: Apache-2.0
"""The memory limit of this process's control group, as in a container or an ECS task.

Version 2: Documentation/admin-guide/cgroup-v2.rst (memory.max, memory.high); version 1:
Documentation/admin-guide/cgroup-v1/memory.rst (memory.limit_in_bytes). The lowest limit from the
group up to the root applies.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from sysctl.host.mount_table import Mount, is_below
from sysctl.host.sysctls import read_total_bytes, whole_number
from sysctl.host.system import HostError, System
from sysctl.knobs.writeback import GroupUse

#: The memory limits of a version 2 group.
V2_FILES = ("memory.max", "memory.high")
_V1_FILES = ("memory.limit_in_bytes",)
_FILE_PAGES = ("active_file", "inactive_file")
_DIRTY_PAGES = ("file_dirty", "file_writeback")


@dataclass(frozen=True)
class MemoryGroup:
    """A limited group: the version of control groups, its path, and the lowest limit.

    `use` is its current memory use, None if it cannot be read. Without `has_dirty_limit` only the
    host's thresholds apply to its writers.
    """

    version: int
    path: str
    limit_bytes: int
    use: GroupUse | None = None
    has_dirty_limit: bool = True


def memory_group(system: System) -> MemoryGroup | None:
    """Return the group that limits this process's memory below the host's; None without one."""
    try:
        total_bytes = read_total_bytes(system)
        places = list(_places(system))
    except HostError:  # no /proc/self/cgroup: a kernel without control groups
        return None
    limited = [group for group in (_limit(system, *place) for place in places) if group]
    tight = [group for group in limited if group.limit_bytes < total_bytes]
    return min(tight, key=lambda group: group.limit_bytes, default=None)


def cgroup_version(system: System) -> int | None:
    """Return the version that limits memory, 1 or 2; None for a kernel without control groups."""
    try:
        return 1 if "memory" in _v1_controllers(system) else 2
    except HostError:
        return None


def has_dirty_limits(system: System) -> bool:
    """Return whether groups have dirty limits of their own: memory and io are on version 2.

    `inode_cgwb_enabled()` in include/linux/backing-dev.h, as of Linux 6.18.
    """
    controllers = _v1_controllers(system)
    return not {"memory", "blkio"} & controllers


def _v1_controllers(system: System) -> set[str]:
    lines = (line.split(":") for line in system.read("/proc/self/cgroup").split("\n"))
    return {name for parts in lines if len(parts) > 1 for name in parts[1].split(",")}


def _places(system: System) -> Iterator[tuple[int, Mount, str]]:
    """Yield version, mount and path of each hierarchy that may limit memory (cgroups(7))."""
    mounts = system.mounts()
    for line in system.read("/proc/self/cgroup").split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            found = [mount for mount in mounts if mount.fstype == "cgroup2"]
        elif "memory" in controllers.split(","):
            found = [m for m in mounts if m.fstype == "cgroup" and "memory" in m.super_options]
        else:
            continue
        version = 1 if controllers else 2
        yield from ((version, mount, path) for mount in found[:1])


def _limit(system: System, version: int, mount: Mount, path: str) -> MemoryGroup | None:
    """Return the lowest limit from the group up to the mount of the hierarchy."""
    inside = path[len(mount.root.rstrip("/")) :] if is_below(path, mount.root) else "/"
    names = [name for name in inside.split("/") if name]
    if ".." in names:  # a group outside of the namespace of this process
        return None
    folders = [posixpath.join(mount.target, *names[:depth]) for depth in range(len(names) + 1)]
    files = _V1_FILES if version == 1 else V2_FILES
    limits = [limit for folder in folders for limit in limits_at(system, folder, files)]
    if not limits:
        return None
    if version == 1:
        return MemoryGroup(version, path, min(limits), None, has_dirty_limit=False)
    use = _use(system, folders)
    return MemoryGroup(version, path, min(limits), use, has_dirty_limits(system))


def _use(system: System, folders: list[str]) -> GroupUse | None:
    """Return the memory use of the last group; each group is below the one before it."""
    try:
        rows = [line.split() for line in system.read(f"{folders[-1]}/memory.stat").split("\n")]
        found = {row[0]: whole_number(row[1], row[0]) for row in rows if len(row) == 2}
        rooms = [_headroom(system, folder) for folder in folders]
    except HostError:
        return None
    if not {*_FILE_PAGES, *_DIRTY_PAGES} <= found.keys():
        return None
    headroom_bytes = min((room for room in rooms if room is not None), default=None)
    if headroom_bytes is None:  # the limits were removed between two reads
        return None
    file_bytes, dirty_bytes = (
        sum(found[name] for name in names) for names in (_FILE_PAGES, _DIRTY_PAGES)
    )
    return GroupUse(file_bytes, dirty_bytes, headroom_bytes)


def _headroom(system: System, folder: str) -> int | None:
    """Return the memory that a group's own limits leave; None without limits."""
    limits = list(limits_at(system, folder, V2_FILES))
    if not limits:
        return None
    path = f"{folder}/memory.current"
    return max(0, min(limits) - whole_number(system.read(path), path))


def limits_at(system: System, folder: str, names: tuple[str, ...]) -> Iterator[int]:
    """Yield the limits in bytes in those files of a group's folder; none for `max`."""
    for name in names:
        if system.exists(f"{folder}/{name}"):
            text = system.read(f"{folder}/{name}")
            if text != "max":
                yield whole_number(text, f"{folder}/{name}")
