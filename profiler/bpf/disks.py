# SPDX-License-Identifier: Apache-2.0
"""Finds the disks of the files below a path, from the mount table and sysfs.

A disk here is a device to which the block layer sends requests (it has `mq` in sysfs). A partition
stands for its disk, a device made of others (device mapper, md) for those disks. An overlay is on
the disks of its upper directory, btrfs on the one device that the mount table names. tmpfs, network
file systems and disks without requests (zram) have none. Nor has a volume with NVMe multipath,
whose paths sysfs does not show for the file system.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.errors import UsageError
from sysctl.host.mount_table import Mount, is_below, mount_of, parse_mountinfo

_SYSFS = Path("/sys")
_MOUNT_TABLE = Path("/proc/self/mountinfo")
_MINOR_BITS = 20  # include/linux/kdev_t.h
_NO_DEVICE = "0"  # major number of file systems that are not on a single device


@dataclass(frozen=True)
class BlockDevice:
    """A disk: its name in /dev and the kernel's number, MAJOR << 20 | MINOR.

    `beneath` are the numbers of the disks of a loop device's backing file, which receive the same
    writes.
    """

    name: str
    number: int
    beneath: tuple[int, ...] = ()


def read_mounts(path: Path = _MOUNT_TABLE) -> tuple[Mount, ...]:
    """Return this process's mount table."""
    return parse_mountinfo(path.read_bytes().decode(errors="surrogateescape"))


def devices_of(
    paths: Iterable[str], mounts: Sequence[Mount] | None = None, sysfs: Path = _SYSFS
) -> tuple[BlockDevice, ...]:
    """Return the disks of the files below absolute `paths`, including mounts, each once."""
    table = read_mounts() if mounts is None else mounts
    found: dict[int, BlockDevice] = {}
    for path in paths:
        for device in _devices_below(os.path.realpath(path), table, sysfs):
            found.setdefault(device.number, device)
    return tuple(found.values())


def bottom_devices(devices: Sequence[BlockDevice]) -> tuple[BlockDevice, ...]:
    """Return the devices without those that store on another of them, to count writes once."""
    numbers = {device.number for device in devices}
    return tuple(device for device in devices if not numbers.intersection(device.beneath))


def _devices_below(path: str, mounts: Sequence[Mount], sysfs: Path) -> Iterator[BlockDevice]:
    with contextlib.suppress(UsageError):  # in a chroot the mount of the root is unknown
        yield from _devices_of_mount(mount_of(mounts, path), mounts, sysfs)
    for mount in mounts:
        if is_below(mount.target, path):
            yield from _devices_of_mount(mount, mounts, sysfs)


def _devices_of_mount(mount: Mount, mounts: Sequence[Mount], sysfs: Path) -> Iterator[BlockDevice]:
    upper = _upper_directory(mount)
    if upper:
        holder = mount_of(mounts, upper)
        if holder != mount:  # a path of another mount namespace can mean the overlay itself here
            yield from _devices_of_mount(holder, mounts, sysfs)
    elif not mount.device.startswith(f"{_NO_DEVICE}:"):
        yield from _disks(sysfs / "dev/block" / mount.device, mounts, sysfs)
    elif mount.source.startswith("/dev/"):
        yield from _disks(sysfs / "dev/block" / _number_text(mount.source), mounts, sysfs)


def disk_number(device: str, sysfs: Path = _SYSFS) -> str:
    """Return `MAJOR:MINOR` of a partition's disk; the same for a whole disk."""
    folder = (sysfs / "dev/block" / device).resolve()
    if not (folder / "partition").exists():
        return device
    return (folder.parent / "dev").read_text(encoding="ascii").strip()


def _upper_directory(mount: Mount) -> str:
    """Return an overlay's upper directory, as named when it was mounted; "" for others."""
    if mount.fstype != "overlay":
        return ""
    prefix = "upperdir=/"
    options = (o[len(prefix) - 1 :] for o in mount.super_options if o.startswith(prefix))
    return next(options, "")


def _number_text(node: str) -> str:
    """Return `MAJOR:MINOR` of a device node; `0:0`, which no disk has, for other files."""
    try:
        status = os.stat(node)  # noqa: PTH116
    except OSError:
        return "0:0"
    number = status.st_rdev if stat.S_ISBLK(status.st_mode) else 0
    return f"{os.major(number)}:{os.minor(number)}"


def _disks(link: Path, mounts: Sequence[Mount], sysfs: Path) -> Iterator[BlockDevice]:
    """Yield the disks of a device in sysfs: itself, its disk, or those that it is made of."""
    folder = link.resolve()
    if (folder / "partition").exists():
        folder = folder.parent
    if (folder / "mq").is_dir():
        yield BlockDevice(folder.name, _number(folder), _beneath(folder, mounts, sysfs))
        return
    for slave in sorted(folder.glob("slaves/*")):
        yield from _disks(slave, mounts, sysfs)


def _number(folder: Path) -> int:
    major, minor = map(int, (folder / "dev").read_text(encoding="ascii").split(":"))
    return major << _MINOR_BITS | minor


def _beneath(folder: Path, mounts: Sequence[Mount], sysfs: Path) -> tuple[int, ...]:
    try:
        backing = os.fsdecode((folder / "loop/backing_file").read_bytes()).rstrip("\n")
    except OSError:
        return ()
    holder = mount_of(mounts, backing)
    return tuple(device.number for device in _devices_of_mount(holder, mounts, sysfs))
