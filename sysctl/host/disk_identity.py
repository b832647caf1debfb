# SPDX-License-Identifier: Apache-2.0
"""The identifiers of a disk that, unlike its name, stay the same after a reboot."""

from __future__ import annotations

import contextlib

from sysctl.change.recommendation import DiskIdentity
from sysctl.host.devices import Disk
from sysctl.host.system import HostError, System

#: The files with an identifier below the disk's folder in sysfs: its own or its controller's
#: (`Documentation/ABI/stable/sysfs-block`, drivers/nvme/host/sysfs.c, drivers/scsi/scsi_sysfs.c).
_FILES = {"wwid": ("wwid", "device/wwid"), "serial": ("serial", "device/serial")}


def disk_identity(system: System, disk: Disk) -> DiskIdentity:
    """Return the identifiers of a disk from sysfs."""
    return DiskIdentity(
        disk.name, **{key: _first(system, disk, files) for key, files in _FILES.items()}
    )


def _first(system: System, disk: Disk, files: tuple[str, ...]) -> str | None:
    for file in files:
        with contextlib.suppress(HostError, UnicodeDecodeError):
            text = system.read(f"/sys/block/{disk.name}/{file}")
            if text:
                return text
    return None
