# SPDX-License-Identifier: Apache-2.0
"""Caps a device's throughput and IOPS with the block cgroup controller, of version 1 or 2.

Version 1: the *root* group's throttle files also cap buffered write-back. Version 2: only a
separate group can be capped, and only pages dirtied by its processes are charged to it, so the
processes under test must join it. Sources: the kernel's
Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst.

With systemd the group is a slice that requests the `io` controller. At a daemon-reload systemd
disables controllers that none of its units requests, and with them the limits of all groups.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sysctl.host.host import Host
from sysctl.host.mount_table import Mount
from sysctl.host.system import HostError, System

_V1_KINDS = ("write_bps", "read_bps", "write_iops", "read_iops")
_V2_GROUP = "writewise-lab"


@dataclass(frozen=True)
class Cap:
    """Limits of block device MAJOR:MINOR for reads and for writes, in bytes/s and operations/s.

    `lines` are cgroup files, each with the lines to set and clear the limit. `group` is the cgroup
    that processes under test must join, None if all processes are capped (version 1).
    """

    lines: tuple[tuple[str, str, str], ...]
    group: str | None = None

    def put(self, host: Host) -> None:
        """Journal and set the cap."""
        for path, setting, clearing in self.lines:
            host.cap_device(path, setting, clearing)

    def lost(self, system: System) -> str | None:
        """Return the part of the cap that is lost; None if all is in force. Raises HostError."""
        for path, setting, _ in self.lines:
            if not system.exists(path):
                return f"{path} no longer exists"
            if setting not in system.read(path).splitlines():
                return f"{path} no longer has the line {setting!r}"
        return None

    def lift(self, host: Host, backing_file: Path) -> None:
        """Clear the cap until `host` restores it; `backing_file` is that of the device."""
        for path, setting, clearing in self.lines:
            host.lift_cap(path, setting, clearing, backing_file)


def plan_cap(host: Host, device: str, rate_bytes_per_s: int, iops: int) -> Cap:
    """Return the cap that this host can set on a device. Raises HostError without a controller."""
    mounts = host.system.mounts()
    v1 = _find(mounts, "cgroup", "blkio")
    if v1 is not None and host.system.exists(f"{v1}/blkio.throttle.write_bps_device"):
        return _v1(v1, device, rate_bytes_per_s, iops)
    v2 = next((m.target for m in mounts if m.fstype == "cgroup2"), None)
    if v2 is None or "io" not in host.system.read(f"{v2}/cgroup.controllers").split():
        raise HostError(
            "no cgroup controller for block I/O is mounted, so the lab's volume cannot be capped",
            "boot with the controller io (version 2) or blkio (version 1)",
        )
    return _v2(host, v2, device, rate_bytes_per_s, iops)


def _find(mounts: tuple[Mount, ...], fstype: str, controller: str) -> str | None:
    found = (m.target for m in mounts if m.fstype == fstype and controller in m.super_options)
    return next(found, None)


def _v1(folder: str, device: str, rate_bytes_per_s: int, iops: int) -> Cap:
    limits = {kind: iops if kind.endswith("iops") else rate_bytes_per_s for kind in _V1_KINDS}
    return Cap(
        tuple(
            (f"{folder}/blkio.throttle.{kind}_device", f"{device} {limit}", f"{device} 0")
            for kind, limit in limits.items()
        )
    )


def _v2(host: Host, folder: str, device: str, rate_bytes_per_s: int, iops: int) -> Cap:
    group = _make_group(host, folder, device)
    setting = f"rbps={rate_bytes_per_s} wbps={rate_bytes_per_s} riops={iops} wiops={iops}"
    clearing = "rbps=max wbps=max riops=max wiops=max"
    return Cap(((f"{group}/io.max", f"{device} {setting}", f"{device} {clearing}"),), group)


def _make_group(host: Host, folder: str, device: str) -> str:
    """Make a group with `io` and `memory`: without both, write-back is not charged to a group."""
    if host.system.is_run_by_systemd():
        unit = f"writewise_lab_{device.replace(':', '_')}.slice"
        return host.start_slice(unit, f"{folder}/{unit}", ("io", "memory"))
    for controller in ("io", "memory"):
        host.enable_controller(folder, controller)
    host.make_cgroup(Path(f"{folder}/{_V2_GROUP}"))
    return f"{folder}/{_V2_GROUP}"


def join(group: str | None, system: System) -> None:
    """Move this process, and so its later children, to the capped group."""
    if group is not None:
        system.write(f"{group}/cgroup.procs", str(os.getpid()))
