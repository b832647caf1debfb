# SPDX-License-Identifier: Apache-2.0
"""The class of this node, from its circumstances and the control group of this process."""

from __future__ import annotations

from sysctl.evidence.circumstances import NodeClass
from sysctl.evidence.class_key import ClassKey, class_key_of
from sysctl.host.memory_group import cgroup_version, memory_group
from sysctl.host.system import System


def class_here(shared: NodeClass, system: System) -> ClassKey:
    """Return the class of a pull that this process makes under those circumstances."""
    group = memory_group(system)
    return class_key_of(
        shared,
        cgroup_version=cgroup_version(system),
        memory_limit_bytes=group.limit_bytes if group else None,
    )
