# SPDX-License-Identifier: Apache-2.0
"""The journalling mode of an ext4 mount."""

from __future__ import annotations

from sysctl.host.mount_table import Mount
from sysctl.host.system import System


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
