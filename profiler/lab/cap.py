"""Capping a device's throughput and IOPS with the block cgroup controller, v1 or v2.

v1: the *root* group's throttle files cap buffered write-back too. v2: only a group of its own can
be capped, and only what processes inside it dirty is charged to it: the processes under test must
join the group. Kernel: Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst.
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
    """Limits of a volume, for reads and writes alike: bytes/s and operations/s."""

    rate_bytes_per_s: int
    iops: int


def cap_device(host: Host, device_number: str, cap: Cap) -> Path | None:
    """Cap block device MAJOR:MINOR; returns the cgroup that a process under test must join.

    None means that every process is capped (v1). Raises HostError without a block controller.
    """
    controllers = host.system.mounts()
    v1 = _find(controllers, "cgroup", "blkio")
    if v1 is not None and host.system.exists(f"{v1}/blkio.throttle.write_bps_device"):
        _cap_v1(host, v1, device_number, cap)
        return None
    v2 = next((m.target for m in controllers if m.fstype == "cgroup2"), None)
    if v2 is None or "io" not in host.system.read(f"{v2}/cgroup.controllers").split():
        raise HostError(
            "no cgroup controller for block I/O is mounted, so the lab's volume cannot be capped",
            "boot with the io (v2) or blkio (v1) controller",
        )
    return _cap_v2(host, v2, device_number, cap)


def _find(mounts: tuple[Mount, ...], fstype: str, controller: str) -> str | None:
    found = (m.target for m in mounts if m.fstype == fstype and controller in m.super_options)
    return next(found, None)


def _cap_v1(host: Host, folder: str, device_number: str, cap: Cap) -> None:
    for kind in _V1_KINDS:
        limit = cap.iops if kind.endswith("iops") else cap.rate_bytes_per_s
        host.cap_device(
            f"{folder}/blkio.throttle.{kind}_device",
            f"{device_number} {limit}",
            f"{device_number} 0",
        )


def _cap_v2(host: Host, folder: str, device_number: str, cap: Cap) -> Path:
    group = Path(folder) / _V2_GROUP
    for controller in ("io", "memory"):  # write-back is charged to a group only with both
        if controller not in host.system.read(f"{folder}/cgroup.subtree_control").split():
            host.system.write(f"{folder}/cgroup.subtree_control", f"+{controller}")
    host.make_cgroup(group)
    rate, iops = cap.rate_bytes_per_s, cap.iops
    host.cap_device(
        f"{group}/io.max",
        f"{device_number} rbps={rate} wbps={rate} riops={iops} wiops={iops}",
        f"{device_number} rbps=max wbps=max riops=max wiops=max",
    )
    return group


def join(group: Path | None, system: System) -> None:
    """Put this process, and so its later children, into the capped group."""
    if group is not None:
        system.write(f"{group}/cgroup.procs", str(os.getpid()))
