"""Where, when and with what versions a comparison is measured, for the record."""

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

#: File systems without write-back: what is written there is never made to wait.
IN_MEMORY = ("tmpfs", "ramfs")


def context_of(
    destination: Path,
    settings: TransferSettings,
    pulls: int,
    versions: Mapping[str, str],
    no_stalls: str | None,
    system: System | None = None,
) -> dict[str, object]:
    """The record; `no_stalls` says why no stalls are seen, None if they are.

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
