# SPDX-License-Identifier: Apache-2.0
"""An ext4 mount: its journalling mode, and whether a new one is still being initialized."""

from __future__ import annotations

from pathlib import Path

from sysctl.host.mount_table import Mount
from sysctl.host.system import System

_INITIALIZER = "ext4lazyinit"


def data_mode(system: System, mount: Mount) -> str:
    """Return how ext4 journals data: `ordered`, `writeback` or `journal`.

    "" on another file system, without a journal, or if unknown. The mount table shows a mode only
    if it is not the default; /proc/fs/ext4/DEVICE/options always shows it (`_ext4_show_options()`
    in fs/ext4/super.c, as of Linux 6.18). Raises HostError.
    """
    if mount.fstype != "ext4":
        return ""
    device = system.path(f"/sys/dev/block/{mount.device}").resolve().name
    path = f"/proc/fs/ext4/{device}/options"
    words = system.read(path).split() if system.exists(path) else mount.all_options
    return next((word[len("data=") :] for word in words if word.startswith("data=")), "")


def is_being_initialized(system: System, mount: Mount) -> bool:
    """Whether the kernel may still write the inode tables of this ext4, some minutes after mkfs.

    Its thread has a journal handle while it writes zeroes (`ext4_init_inode_table()` in
    fs/ext4/ialloc.c, as of Linux 6.18). On a busy device that takes seconds; a commit of the
    journal waits for the handle, and every writer for the commit. One thread serves all ext4 and
    ends when none is left.
    """
    if mount.fstype != "ext4" or "noinit_itable" in mount.all_options:
        return False
    return any(_name(file) == _INITIALIZER for file in system.path("/proc").glob("[0-9]*/comm"))


def _name(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):  # the process has ended, or chose a strange name
        return ""
