# SPDX-License-Identifier: Apache-2.0
"""This host in every measurement: its memory and name, the time, the version of Writewise."""

from __future__ import annotations

import platform
from datetime import datetime, timezone

from contracts.shared.installation import own_version
from sysctl.evidence.circumstances import Node
from sysctl.host.sysctls import dirtyable_bytes, read_available_bytes, read_total_bytes
from sysctl.host.system import System


def node_here(system: System) -> Node:
    """Return this host as it is now, without a destination and its volume."""
    return Node(
        available_bytes=read_available_bytes(system),
        dirtyable_bytes=dirtyable_bytes(system),
        memory_bytes=read_total_bytes(system),
        host=platform.node(),
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        version=own_version(),
    )
