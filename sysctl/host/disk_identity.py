"""What the kernel says of a disk that is the same after a restart, when its name may be another."""

from __future__ import annotations

import contextlib

from sysctl.change.recommendation import DiskIdentity
from sysctl.host.devices import Disk
from sysctl.host.system import HostError, System

#: Where an identifier is, below the disk's folder in sysfs: its own, or that of its controller
#: (`Documentation/ABI/stable/sysfs-block`, drivers/nvme/host/sysfs.c, drivers/scsi/scsi_sysfs.c).
_FILES = {"wwid": ("wwid", "device/wwid"), "serial": ("serial", "device/serial")}


def disk_identity(system: System, disk: Disk) -> DiskIdentity:
    """Return what the kernel says of a disk."""
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
