"""Which disks the files below a path lie on, as far as the mount table and sysfs tell.

A disk here is what the block layer sends requests to (it has `mq` in sysfs). A partition stands
for its disk, a device made of others (device mapper, md) for the disks that it is made of. An
overlay lies where its upper directory does, btrfs on the one device that the mount table names.
tmpfs, network file systems and disks without requests (zram) have none; the paths of NVMe
multipath are hidden from sysfs's view of a file system, so such a volume has none either.
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
_NO_DEVICE = "0"  # major number of file systems that are on no single device


@dataclass(frozen=True)
class BlockDevice:
    """A disk: its name in /dev and the kernel's number, MAJOR << 20 | MINOR.

    `beneath` are the numbers of the disks that a loop device's backing file lies on: what is
    written to it is written to them as well.
    """

    name: str
    number: int
    beneath: tuple[int, ...] = ()


def read_mounts(path: Path = _MOUNT_TABLE) -> tuple[Mount, ...]:
    """The mount table of this process."""
    return parse_mountinfo(path.read_bytes().decode(errors="surrogateescape"))


def devices_of(
    paths: Iterable[str], mounts: Sequence[Mount] | None = None, sysfs: Path = _SYSFS
) -> tuple[BlockDevice, ...]:
    """The disks of the files below absolute `paths`, mounts below them included, each once."""
    table = read_mounts() if mounts is None else mounts
    found: dict[int, BlockDevice] = {}
    for path in paths:
        for device in _devices_below(os.path.realpath(path), table, sysfs):
            found.setdefault(device.number, device)
    return tuple(found.values())


def bottom_devices(devices: Sequence[BlockDevice]) -> tuple[BlockDevice, ...]:
    """Those without the ones that store on another of them: what they wrote is counted once."""
    numbers = {device.number for device in devices}
    return tuple(device for device in devices if not numbers.intersection(device.beneath))


def _devices_below(path: str, mounts: Sequence[Mount], sysfs: Path) -> Iterator[BlockDevice]:
    with contextlib.suppress(UsageError):  # a chroot: what its root is on is not known
        yield from _devices_of_mount(mount_of(mounts, path), mounts, sysfs)
    for mount in mounts:
        if is_below(mount.target, path):
            yield from _devices_of_mount(mount, mounts, sysfs)


def _devices_of_mount(mount: Mount, mounts: Sequence[Mount], sysfs: Path) -> Iterator[BlockDevice]:
    upper = _upper_directory(mount)
    if upper:
        holder = mount_of(mounts, upper)
        if holder != mount:  # another mount namespace's path can mean the overlay itself here
            yield from _devices_of_mount(holder, mounts, sysfs)
    elif not mount.device.startswith(f"{_NO_DEVICE}:"):
        yield from _disks(sysfs / "dev/block" / mount.device, mounts, sysfs)
    elif mount.source.startswith("/dev/"):
        yield from _disks(sysfs / "dev/block" / _number_text(mount.source), mounts, sysfs)


def _upper_directory(mount: Mount) -> str:
    """An overlay's upper directory, by the name it had when it was mounted; or nothing."""
    if mount.fstype != "overlay":
        return ""
    prefix = "upperdir=/"
    options = (o[len(prefix) - 1 :] for o in mount.super_options if o.startswith(prefix))
    return next(options, "")


def _number_text(node: str) -> str:
    """`MAJOR:MINOR` of a device node, `0:0` (which no disk has) when it is none."""
    try:
        status = os.stat(node)  # noqa: PTH116
    except OSError:
        return "0:0"
    number = status.st_rdev if stat.S_ISBLK(status.st_mode) else 0
    return f"{os.major(number)}:{os.minor(number)}"


def _disks(link: Path, mounts: Sequence[Mount], sysfs: Path) -> Iterator[BlockDevice]:
    """From a link in sysfs to a device: itself, its disk, or those that it is made of."""
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
