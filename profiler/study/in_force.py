"""What of the host decides a pull's time, read before and after: nobody may change it meanwhile."""

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
    """The write-back sysctls and the disk's knobs by name, and how the destination is mounted.

    `mount` is what is mounted and every option, None where nothing is.
    """

    sysctls: Mapping[str, int]
    mount: tuple[str, ...] | None
    knobs: Mapping[str, str]

    def changes(self, now: InForce) -> list[str]:
        """What is another one `now`: sysctls and knobs by name, and the mount's words."""
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
    """How the host is now. Raises HostError where it cannot be read, or the disk is another one.

    Of the disk what its knobs rest on (`kept_values`): those that are bytes move with the dirty
    threshold, of which they are shares.
    """
    if disk is not None and not is_there(system, disk):
        raise HostError(f"{disk.name} is not the disk any more that it was when the sweep began")
    mount = mount_at(system.mounts(), mount_target)
    return InForce(
        sysctls=read_writeback(system),
        mount=(mount.source, mount.fstype, *mount.all_options) if mount else None,
        knobs=kept_values(system, disk) if disk else {},
    )


@contextmanager
def unchanged(system: System, mount_target: str, disk: Disk | None) -> Iterator[InForce]:
    """What is in force now. Raises HostError at the end of the block where it is not then."""
    before = read_in_force(system, mount_target, disk)
    yield before
    changed = before.changes(read_in_force(system, mount_target, disk))
    if changed:
        raise HostError(f"another program changed {', '.join(changed)} during the trial")


def _mount_changes(before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> list[str]:
    """`mount option relatime`, for each word that came or went."""
    if before is None or after is None:
        return ["the mount"] if before != after else []
    return [f"mount option {word}" for word in sorted({*before} ^ {*after})]
