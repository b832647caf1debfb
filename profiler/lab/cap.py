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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sysctl.host.host import Host
from sysctl.host.mount_table import Mount
from sysctl.host.system import HostError, System

_V1_KINDS = ("write_bps", "read_bps", "write_iops", "read_iops")
_V2_GROUP = "writewise-lab"


@dataclass(frozen=True)
class CapLimits:
    """What a device may do, for reads and for writes; `iops` is None without a limit of IOPS."""

    rate_bytes_per_s: int
    iops: int | None


@dataclass(frozen=True)
class Cap:
    """Limits of block device MAJOR:MINOR for reads and for writes, in bytes/s and operations/s.

    `lines` are cgroup files, each with the lines to set and clear the limit. `group` is the cgroup
    that processes under test must join, None if all processes are capped (version 1). `others` are
    the settings that may replace those of `lines`, each with one line for each file.
    """

    lines: tuple[tuple[str, str, str], ...]
    group: str | None = None
    others: tuple[tuple[str, ...], ...] = ()

    def put(self, host: Host) -> None:
        """Journal and set the cap."""
        for number, (path, setting, clearing) in enumerate(self.lines):
            host.cap_device(path, setting, clearing, tuple(other[number] for other in self.others))

    def change(self, host: Host, index: int) -> None:
        """Set what was planned as the first limits (0) or as one of the others (from 1)."""
        for number, (path, _, _) in enumerate(self.lines):
            if self._settings(number)[index] not in host.system.read(path).splitlines():
                host.change_cap(path, self._settings(number)[index])

    def is_set(self, system: System, index: int) -> bool:
        """Return whether exactly these limits are in force."""
        return all(
            self._settings(number)[index] in system.read(path).splitlines()
            for number, (path, _, _) in enumerate(self.lines)
        )

    def lost(self, system: System) -> str | None:
        """Return the part of the cap that is lost; None if all is in force. Raises HostError."""
        for number, (path, _, _) in enumerate(self.lines):
            if not system.exists(path):
                return f"{path} no longer exists"
            if self._present_in(system, number) is None:
                settings = " or ".join(map(repr, dict.fromkeys(self._settings(number))))
                return f"{path} no longer has the line {settings}"
        return None

    def lift(self, host: Host, backing_file: Path) -> None:
        """Clear the cap until `host` restores it; `backing_file` is that of the device."""
        for number, (path, setting, clearing) in enumerate(self.lines):
            present = self._present_in(host.system, number) or setting
            host.lift_cap(path, present, clearing, backing_file)

    def _settings(self, number: int) -> tuple[str, ...]:
        """Return the lines that a file may have."""
        return self.lines[number][1], *(other[number] for other in self.others)

    def _present_in(self, system: System, number: int) -> str | None:
        """Return the line of ours that a file has; None if it has none."""
        present = system.read(self.lines[number][0]).splitlines()
        return next((line for line in self._settings(number) if line in present), None)


def plan_cap(host: Host, device: str, limits: CapLimits, others: Sequence[CapLimits] = ()) -> Cap:
    """Return the cap that this host can set on a device, and the `others` that may replace it.

    Either all limits have IOPS or none. Raises HostError without a controller.
    """
    mounts = host.system.mounts()
    v1 = _find(mounts, "cgroup", "blkio")
    if v1 is not None and host.system.exists(f"{v1}/blkio.throttle.write_bps_device"):
        return _v1(v1, device, limits, others)
    v2 = next((m.target for m in mounts if m.fstype == "cgroup2"), None)
    if v2 is None or "io" not in host.system.read(f"{v2}/cgroup.controllers").split():
        raise HostError(
            "no cgroup controller for block I/O is mounted, so the lab's volume cannot be capped",
            "boot with the controller io (version 2) or blkio (version 1)",
        )
    return _v2(host, v2, device, limits, others)


def _find(mounts: tuple[Mount, ...], fstype: str, controller: str) -> str | None:
    found = (m.target for m in mounts if m.fstype == fstype and controller in m.super_options)
    return next(found, None)


def _v1(folder: str, device: str, limits: CapLimits, others: Sequence[CapLimits]) -> Cap:
    kinds = [kind for kind in _V1_KINDS if limits.iops is not None or not kind.endswith("iops")]

    def settings(of: CapLimits) -> tuple[str, ...]:
        return tuple(
            f"{device} {of.iops if kind.endswith('iops') else of.rate_bytes_per_s}"
            for kind in kinds
        )

    files = (f"{folder}/blkio.throttle.{kind}_device" for kind in kinds)
    lines = tuple((path, line, f"{device} 0") for path, line in zip(files, settings(limits)))
    return Cap(lines, None, tuple(map(settings, others)))


def _v2(
    host: Host, folder: str, device: str, limits: CapLimits, others: Sequence[CapLimits]
) -> Cap:
    group = _make_group(host, folder, device)

    def setting(of: CapLimits) -> str:
        iops = "max" if of.iops is None else of.iops
        rate = of.rate_bytes_per_s
        return f"{device} rbps={rate} wbps={rate} riops={iops} wiops={iops}"

    clearing = f"{device} rbps=max wbps=max riops=max wiops=max"
    line = (f"{group}/io.max", setting(limits), clearing)
    return Cap((line,), group, tuple((setting(other),) for other in others))


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


def cap_from_record(data: Mapping[str, Any]) -> Cap:
    """Return what `dataclasses.asdict` has stored. Raises KeyError, TypeError and ValueError."""
    lines = tuple((path, setting, clearing) for path, setting, clearing in data["lines"])
    return Cap(lines, data["group"], tuple(map(tuple, data["others"])))
