# SPDX-License-Identifier: Apache-2.0
"""The control groups of a host whose own memory limit also limits their dirty pages.

The thresholds apply to a group's own memory only if both the memory and the io controller are on
version 2 (`inode_cgwb_enabled()`, include/linux/backing-dev.h, as of Linux 6.18). Groups of version
1 have no dirty limit, so they do not count here.
"""

from __future__ import annotations

import contextlib
import os

from sysctl.host.memory_group import V2_FILES, MemoryGroup, has_dirty_limits, limits_at
from sysctl.host.sysctls import read_total_bytes
from sysctl.host.system import HostError, System


def limited_groups(system: System) -> tuple[MemoryGroup, ...]:
    """Return every version 2 group with a limit below the host's memory.

    Groups without processes count too: pods return to a drained node. Paths are relative to the
    mount of the hierarchy. The result is () if groups do not limit dirty pages.
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
    """Return the lower of a group's two limits; None without one, or if the group is gone."""
    with contextlib.suppress(HostError):
        return min(limits_at(system, folder, V2_FILES), default=None)
    return None
