# SPDX-License-Identifier: Apache-2.0
"""The host's settings that affect a pull, read before and after it to detect changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sysctl.host.devices import Disk, is_there, kept_values
from sysctl.host.mount_table import mount_at
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System


@dataclass(frozen=True)
class InForce:
    """The write-back sysctls and the disk's knobs by name, and the destination's mount.

    `mount` has the source, the file system type and every option; None if nothing is mounted.
    """

    sysctls: Mapping[str, int]
    mount: tuple[str, ...] | None
    knobs: Mapping[str, str]

    def changes(self, now: InForce) -> list[str]:
        """Return what differs `now`: names of sysctls and knobs, and mount options."""
        named: list[tuple[Mapping[str, object], Mapping[str, object]]] = [
            (self.sysctls, now.sysctls),
            (self.knobs, now.knobs),
        ]
        changed = [
            name
            for before, after in named
            for name in dict.fromkeys([*before, *after])
            if before.get(name) != after.get(name)
        ]
        return [*changed, *_mount_changes(self.mount, now.mount)]


def read_in_force(system: System, mount_target: str, disk: Disk | None) -> InForce:
    """Return the current state. Raises HostError if it cannot be read or the disk was replaced.

    For the disk's knobs it has the values that they are based on (`kept_values`): knobs in bytes
    are shares of the dirty threshold and move with it.
    """
    if disk is not None and not is_there(system, disk):
        raise HostError(
            f"{disk.name} is no longer the same disk as when the sweep began",
            "check the volume, then start a new sweep",
        )
    mount = mount_at(system.mounts(), mount_target)
    return InForce(
        sysctls=read_writeback(system),
        mount=(mount.source, mount.fstype, *mount.all_options) if mount else None,
        knobs=kept_values(system, disk) if disk else {},
    )


@contextmanager
def unchanged(system: System, mount_target: str, disk: Disk | None) -> Iterator[InForce]:
    """Yield the current state. Raises HostError if it has changed at the end of the block."""
    before = read_in_force(system, mount_target, disk)
    yield before
    changed = before.changes(read_in_force(system, mount_target, disk))
    if changed:
        raise HostError(f"another program changed {', '.join(changed)} during the trial")


def _mount_changes(before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> list[str]:
    """Return `mount option relatime` for each option that was added or removed."""
    if before is None or after is None:
        return ["the mount"] if before != after else []
    return [f"mount option {word}" for word in sorted({*before} ^ {*after})]
