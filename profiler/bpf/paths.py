# SPDX-License-Identifier: Apache-2.0
"""A rule's path as the kernel identifies it: by an inode number and a super block's device."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from sysctl.host.mount_table import parse_mountinfo

#: Subvolumes on one super block repeat inode numbers.
REPEATING_INODES = ("btrfs", "bcachefs")
_MINOR_BITS = 20  # include/linux/kdev_t.h


@dataclass(frozen=True)
class Inode:
    """A directory or file; `device` is MAJOR << 20 | MINOR of its super block."""

    device: int
    inode_number: int


def resolve(path: str) -> Inode:
    """Return the inode that `path` (absolute, symlinks followed) names now. Raises UsageError."""
    place, fstype = locate(path)
    if fstype in REPEATING_INODES:
        message = (
            f"the contract's path {printable(path)} is on {fstype}, whose inodes are ambiguous"
        )
        raise UsageError(message, "use `/`, or a directory on xfs, ext4 or another file system")
    return place


def locate(path: str) -> tuple[Inode, str]:
    """Return the inode that `path` names now, and the type of its file system.

    The numbers are the kernel's own. stat(2) may return others: on overlay and btrfs a st_dev that
    no super block has, on overlay also another st_ino. Raises UsageError.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"the contract's path {printable(path)} cannot be profiled: {reason}"
        raise UsageError(message, "create it, or correct the path in the contract") from None
    try:
        fields = _fields_of(descriptor)
        device, fstype = _mount(fields["mnt_id"])
        # The field `ino` came with Linux 5.14 (commit 3845f256a8b5).
        inode_number = int(fields.get("ino") or os.fstat(descriptor).st_ino)
    finally:
        os.close(descriptor)
    return Inode(device, inode_number), fstype


def _fields_of(descriptor: int) -> dict[str, str]:
    """Return the fields of /proc/self/fdinfo/N (proc(5))."""
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    return {name: value.strip() for name, _, value in (s.partition(":") for s in text.splitlines())}


def _mount(mount_id: str) -> tuple[int, str]:
    """Return the device and file system type of a mount, from /proc/self/mountinfo (proc(5))."""
    table = Path("/proc/self/mountinfo").read_bytes().decode(errors="replace")
    for mount in parse_mountinfo(table):
        if mount.mount_id == mount_id:
            major, minor = map(int, mount.device.split(":"))
            return major << _MINOR_BITS | minor, mount.fstype
    raise UsageError(f"mount {mount_id} is missing in this process's mount table", "try again")
