"""The control groups of a host whose own memory limit also limits their dirty pages.

A group's writers are held to the thresholds as shares of the group's memory only where both the
memory and the io controller are of version 2 (`inode_cgwb_enabled()`, include/linux/backing-dev.h,
as of Linux 6.18). Version 1 has no dirty limit of a group, so its groups do not count here.
"""

from __future__ import annotations

import contextlib
import os

from sysctl.host.memory_group import V2_FILES, MemoryGroup, has_dirty_limits, limits_at
from sysctl.host.sysctls import read_total_bytes
from sysctl.host.system import HostError, System


def limited_groups(system: System) -> tuple[MemoryGroup, ...]:
    """Every version 2 group with a limit below the host's memory, by its own limit.

    One without processes counts: a drained node's pods come back to it. The paths are those below
    the mount of the hierarchy. There are none where groups do not limit dirty pages.
    """
    mounts = [mount for mount in system.mounts() if mount.fstype == "cgroup2"]
    if not mounts or not has_dirty_limits(system):
        return ()
    total_bytes = read_total_bytes(system)
    root = str(system.path(mounts[0].target))
    found = []
    for folder, _, _ in os.walk(root):
        path = folder[len(root) :]
        limit_bytes = _limit(system, mounts[0].target + path)
        if limit_bytes is not None and limit_bytes < total_bytes:
            found.append(MemoryGroup(2, path or "/", limit_bytes))
    return tuple(found)


def _limit(system: System, folder: str) -> int | None:
    """The tighter of a group's two limits; None without one, or when the group is gone."""
    with contextlib.suppress(HostError):
        return min(limits_at(system, folder, V2_FILES), default=None)
    return None
