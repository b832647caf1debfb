# SPDX-License-Identifier: Apache-2.0
"""Whether a hypervisor takes back free memory: free page reporting of virtio's balloon.

A page that was free for a while no longer belongs to the virtual machine. The next write to it
waits until the hypervisor provides a new page. This happens inside the kernel's copy into the page
cache, where it looks like CPU time. Small blocks are not reported, so it affects large folios more.
Source: Linux, mm/page_reporting.c, include/uapi/linux/virtio_balloon.h.
"""

from __future__ import annotations

import os

from sysctl.host.system import System

#: Blocks of 2 to the power of this many pages and more are reported.
ORDER_FILE = "/sys/module/page_reporting/parameters/page_reporting_order"
_DEVICES = "/sys/bus/virtio/devices"
_BALLOON = "0x0005"
_REPORTING_BIT = 5  # VIRTIO_BALLOON_F_REPORTING
_LARGEST_ORDER = 10  # of blocks that the kernel keeps


def reported_block_bytes(system: System) -> int | None:
    """Return the size in bytes from which free blocks are taken back; None if none are.

    Raises HostError.
    """
    if not system.exists(_DEVICES) or not system.exists(ORDER_FILE):
        return None
    order = int(system.read(ORDER_FILE))
    names = [each.name for each in system.path(_DEVICES).iterdir()]
    if not 0 <= order <= _LARGEST_ORDER or not any(_reports(system, name) for name in names):
        return None
    return os.sysconf("SC_PAGE_SIZE") << order


def _reports(system: System, device: str) -> bool:
    folder = f"{_DEVICES}/{device}"
    if system.read(f"{folder}/device") != _BALLOON:
        return False
    return system.read(f"{folder}/features")[_REPORTING_BIT : _REPORTING_BIT + 1] == "1"
