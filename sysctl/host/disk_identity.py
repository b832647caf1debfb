"""What the kernel says of a disk that is the same after a restart, when its name may be another."""

from __future__ import annotations

import contextlib

from sysctl.host.devices import Disk
from sysctl.host.system import HostError, System

#: Where an identifier is, below the disk's folder in sysfs: its own, or that of its controller
#: (`Documentation/ABI/stable/sysfs-block`, drivers/nvme/host/sysfs.c, drivers/scsi/scsi_sysfs.c).
_FILES = {"wwid": ("wwid", "device/wwid"), "serial": ("serial", "device/serial")}


def disk_identity(system: System, disk: Disk) -> dict[str, str]:
    """The disk's `name`, `wwid` and `serial`; empty where the kernel has none."""
    found = {key: _first(system, disk, files) for key, files in _FILES.items()}
    return {"name": disk.name, **found}


def _first(system: System, disk: Disk, files: tuple[str, ...]) -> str:
    for file in files:
        with contextlib.suppress(HostError, UnicodeDecodeError):
            text = system.read(f"/sys/block/{disk.name}/{file}")
            if text:
                return text
    return ""
