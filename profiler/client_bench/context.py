# SPDX-License-Identifier: Apache-2.0
"""The context of a comparison: place, time and versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from profiler.pull.settings import TransferSettings
from sysctl.host.mount_table import mount_of
from sysctl.host.page_reporting import reported_block_bytes
from sysctl.host.sysctls import read_thresholds, read_total_bytes, read_writeback
from sysctl.host.system import System

#: File systems without write-back, where writers never have to wait.
IN_MEMORY = ("tmpfs", "ramfs")


def context_of(
    destination: Path,
    settings: TransferSettings,
    pulls: int,
    versions: Mapping[str, str],
    no_stalls: str | None,
    system: System | None = None,
) -> dict[str, object]:
    """Return the context; `no_stalls` is why stalls cannot be seen, None if they can.

    Raises HostError.
    """
    host = system or System()
    return {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "pulls": pulls,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "memory_bytes": read_total_bytes(host),
        "reported_block_bytes": reported_block_bytes(host),
        "python": platform.python_version(),
        "file_system": mount_of(host.mounts(), os.path.realpath(destination)).fstype,
        "dirty_threshold_bytes": read_thresholds(host).dirty_bytes,
        "writeback": read_writeback(host),
        "transfer": str(settings),
        "clients": dict(versions),
        "no_stalls": no_stalls,
    }
