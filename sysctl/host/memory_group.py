"""The memory limit of the control group that this process is in, as a container or an ECS task has.

Version 2: Documentation/admin-guide/cgroup-v2.rst (memory.max, memory.high); version 1:
Documentation/admin-guide/cgroup-v1/memory.rst (memory.limit_in_bytes). A group is held by the
tightest limit from itself up to the root.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from sysctl.host.mount_table import Mount, is_below
from sysctl.host.sysctls import read_meminfo_bytes, whole_number
from sysctl.host.system import HostError, System

_V2_FILES = ("memory.max", "memory.high")
_V1_FILES = ("memory.limit_in_bytes",)


@dataclass(frozen=True)
class MemoryGroup:
    """A limited group: version 1 or 2 of control groups, its path, and the tightest limit."""

    version: int
    path: str
    limit_bytes: int


def memory_group(system: System) -> MemoryGroup | None:
    """The group that limits this process's memory below the host's; None when none does."""
    try:
        total_bytes = read_meminfo_bytes(system, "MemTotal")
        places = list(_places(system))
    except HostError:  # no /proc/self/cgroup: a kernel without control groups
        return None
    limited = [group for group in (_limit(system, *place) for place in places) if group]
    tight = [group for group in limited if group.limit_bytes < total_bytes]
    return min(tight, key=lambda group: group.limit_bytes, default=None)


def _places(system: System) -> Iterator[tuple[int, Mount, str]]:
    """Version, mount and path of each hierarchy that may limit memory (cgroups(7))."""
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
    """The tightest limit from the group up to where the hierarchy is mounted."""
    inside = path[len(mount.root.rstrip("/")) :] if is_below(path, mount.root) else "/"
    names = [name for name in inside.split("/") if name]
    if ".." in names:  # a group outside of the namespace of this process
        return None
    folders = [posixpath.join(mount.target, *names[:depth]) for depth in range(len(names) + 1)]
    files = _V1_FILES if version == 1 else _V2_FILES
    limits = [limit for folder in folders for limit in limits_at(system, folder, files)]
    return MemoryGroup(version, path, min(limits)) if limits else None


def limits_at(system: System, folder: str, names: tuple[str, ...]) -> Iterator[int]:
    """The limits in bytes that those files of a group's folder hold; none for `max`."""
    for name in names:
        if system.exists(f"{folder}/{name}"):
            text = system.read(f"{folder}/{name}")
            if text != "max":
                yield whole_number(text, f"{folder}/{name}")
