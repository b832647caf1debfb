# SPDX-License-Identifier: Apache-2.0
"""What an EC2 node shows without credentials: the instance type and the volumes.

The node does not show a volume's type, its IOPS and its throughput.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from profiler.ec2.log_page import EBS_MODEL
from profiler.ec2.metadata import Metadata, MetadataError

_SERIAL = re.compile(r"vol-?([0-9a-f]{8,17})")
_DISK = re.compile(r"nvme\d+n\d+")
_FIRMWARE = "class/dmi/id"
_SECTOR_BYTES = 512  # the unit of /sys/block/*/size for every disk


@dataclass(frozen=True)
class AttachedVolume:
    """An attached EBS volume: its id, the kernel's name of the disk, and its size."""

    volume_id: str
    disk: str
    size_bytes: int


@dataclass(frozen=True)
class Ec2Node:
    """What is known about this node. `problem` says why metadata is missing, None if it is not."""

    is_ec2: bool = False
    instance_type: str | None = None
    region: str | None = None
    volumes: tuple[AttachedVolume, ...] = ()
    problem: str | None = None
    instance_id: str | None = None


def discover(sysfs: Path = Path("/sys"), metadata: Callable[[], Metadata] = Metadata) -> Ec2Node:
    """Return what this node reports about itself; outside EC2 it makes no network request."""
    if not is_ec2(sysfs):
        return Ec2Node()
    volumes = tuple(ebs_volumes(sysfs))
    service = metadata()
    try:
        instance_type = service.get("instance-type")
        region = service.get("placement/region")
        instance_id = service.get("instance-id")
    except MetadataError as error:
        return Ec2Node(is_ec2=True, volumes=volumes, problem=str(error))
    problem = None if instance_type else "the metadata has no instance type"
    return Ec2Node(True, instance_type, region, volumes, problem, instance_id)


def is_ec2(sysfs: Path) -> bool:
    """Return whether the firmware names Amazon EC2, on Nitro and on Xen instances."""
    uuid = _text(sysfs / "hypervisor/uuid") or ""
    return _is_nitro(sysfs) or uuid.startswith("ec2")


def instance_type_of_firmware(sysfs: Path) -> str | None:
    """Return the instance type, which Nitro has as product name; None on other hosts."""
    return _text(sysfs / _FIRMWARE / "product_name") if _is_nitro(sysfs) else None


def _is_nitro(sysfs: Path) -> bool:
    return _text(sysfs / _FIRMWARE / "sys_vendor") == "Amazon EC2"


def ebs_volumes(sysfs: Path) -> Iterator[AttachedVolume]:
    """Yield the NVMe disks that are EBS volumes; their serial number has the volume's id.

    The paths of a disk with several (`nvme0c0n1`) are not disks of their own.
    """
    disks = (sysfs / "block").glob("nvme*n*")
    for disk in sorted(disk for disk in disks if _DISK.fullmatch(disk.name)):
        serial = _SERIAL.fullmatch(_text(disk / "device/serial") or "")
        if _text(disk / "device/model") == EBS_MODEL and serial:
            sectors = _text(disk / "size") or ""
            size_bytes = int(sectors) * _SECTOR_BYTES if sectors.isdigit() else 0
            yield AttachedVolume(f"vol-{serial[1]}", disk.name, size_bytes)


def _text(path: Path) -> str | None:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return None
