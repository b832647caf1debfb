# SPDX-License-Identifier: Apache-2.0
"""Which disks a directory is on, and where a disk is mounted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.errors import WritewiseError
from sysctl.host.mount_table import Mount, mount_of, parse_mountinfo


@dataclass(frozen=True)
class Mounts:
    """The mount table, and the sysfs that shows the disks below each mount."""

    table: Sequence[Mount]
    sysfs: Path = Path("/sys")

    def disks(self, path: str) -> frozenset[str]:
        """Return the names of all disks below an absolute path; none if it is not on a disk."""
        try:
            return frozenset(_disks_of(mount_of(self.table, os.path.realpath(path)), self.sysfs))
        except (WritewiseError, OSError):
            return frozenset()

    def targets(self, disk: str) -> tuple[str, ...]:
        """Return where a disk is mounted, in the order of the mount table."""
        found = (each.target for each in self.table if disk in _disks_of(each, self.sysfs))
        return tuple(dict.fromkeys(found))


def read_mounts() -> Mounts:
    """Return the mounts of this process; none if they cannot be read."""
    try:
        text = Path("/proc/self/mountinfo").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return Mounts(())
    return Mounts(parse_mountinfo(text))


def device_of(path: str) -> str | None:
    """Return the MAJOR:MINOR number of a device file; None if there is none."""
    try:
        number = Path(path).stat().st_rdev
    except OSError:
        return None
    return f"{os.major(number)}:{os.minor(number)}"


def _disks_of(mount: Mount, sysfs: Path) -> Iterator[str]:
    """Yield the disks of a mount; btrfs has a number of its own, so its device file is asked."""
    is_on_device = mount.source.startswith("/dev/")
    if mount.device.startswith("0:"):
        number = device_of(mount.source) if is_on_device else None
    else:
        number = mount.device
    if number is not None:
        yield from _lowest((sysfs / "dev/block" / number).resolve())


def _lowest(folder: Path) -> Iterator[str]:
    """Yield the disks that a partition, or a device of LVM or md, is made of."""
    if (folder / "partition").exists():
        folder = folder.parent
    below = sorted((folder / "slaves").glob("*"))
    if not below and (folder / "queue").exists():
        yield folder.name
    for each in below:
        yield from _lowest(each.resolve())
