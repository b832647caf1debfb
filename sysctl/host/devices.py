# SPDX-License-Identifier: Apache-2.0
"""The knobs of one disk in sysfs: found from its mount, read, set in a safe order, read back.

The hazards (kernel block/elevator.c and mm/backing-dev.c, as of Linux 6.18): changing the scheduler
resets nr_requests; writing the name of a scheduler that is not loaded would load its module;
max_ratio and max_bytes are one value, and the largest share may never be below the smallest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sysctl.host.mount_table import Mount
from sysctl.host.system import HostError, System
from sysctl.knobs.block import NR_REQUESTS, SCHEDULER, WBT
from sysctl.knobs.catalogue import DEVICE_BY_NAME, DEVICE_KNOBS

#: The attributes to save for each knob, in the order in which they are restored: of those with the
#: same value, the first that the kernel has.
_KEPT = {
    knob.name: tuple(
        name for name in (knob.exact, knob.counterpart if knob.is_rounded else knob.name) if name
    )
    for knob in DEVICE_KNOBS
}
#: Knobs of a request queue. A device made of others (device mapper, md) passes writes on before
#: they become requests, so it has none, although some kernels show the files (block/blk-sysfs.c of
#: Linux 6.1).
_OF_REQUESTS = (SCHEDULER, NR_REQUESTS, WBT)
_ROUNDING = 0.01


@dataclass(frozen=True)
class Disk:
    """A disk: its name in /sys/block, its MAJOR:MINOR number, and its sequence number.

    `sequence` is unique in this boot (diskseq, since Linux 5.15; "" before): a loop device that is
    attached again gets a new number.
    """

    name: str
    number: str
    sequence: str

    def path(self, attribute: str) -> str:
        """Return the path of `queue/nr_requests` or `bdi/max_ratio` of this disk."""
        folder, _, file = attribute.partition("/")
        if folder == "bdi":
            return f"/sys/class/bdi/{self.number}/{file}"
        return f"/sys/block/{self.name}/{folder}/{file}"


def disk_of(system: System, mount: Mount) -> Disk:
    """Return the disk of a mount. Raises HostError if it is not on a single disk.

    For a partition this is its disk. A device made of others (device mapper, md) is the disk
    itself: it has its own read-ahead and limits of dirty memory. For the kernel, btrfs, overlay,
    tmpfs and network file systems are not on a single device.
    """
    folder = system.path(f"/sys/dev/block/{mount.device}").resolve()
    if (folder / "partition").exists():
        folder = folder.parent
    if not (folder / "queue").exists():
        raise HostError(f"{mount.target} ({mount.fstype}) is not on one disk with a queue")
    number = (folder / "dev").read_text(encoding="ascii").strip()
    return Disk(folder.name, number, _sequence(system, folder.name))


def _sequence(system: System, name: str) -> str:
    path = f"/sys/block/{name}/diskseq"
    return system.read(path) if system.exists(path) else ""


def is_there(system: System, disk: Disk) -> bool:
    """Return whether the same disk still exists, rather than a new disk with its name."""
    path = f"/sys/block/{disk.name}/dev"
    if not system.exists(path) or system.read(path) != disk.number:
        return False
    return _sequence(system, disk.name) == disk.sequence


def lacking(system: System, disk: Disk, name: str) -> str | None:
    """Return why this disk has no such knob; None if it has it."""
    if name in _OF_REQUESTS and not system.exists(f"/sys/block/{disk.name}/mq"):
        below = sorted(
            each.name for each in system.path(f"/sys/block/{disk.name}").glob("slaves/*")
        )
        on = f" (it is on {', '.join(below)})" if below else ""
        return f"{disk.name} has no request queue of its own{on}"
    if not system.exists(disk.path(name)):
        return "this kernel does not have this knob for this disk"
    return None


def read_attribute(system: System, disk: Disk, attribute: str) -> str:
    """Return the current value; of the schedulers the one in use. Raises HostError."""
    text = system.read(disk.path(attribute))
    if attribute == SCHEDULER:
        return text.partition("[")[2].partition("]")[0] or text
    return text


def schedulers(system: System, disk: Disk) -> tuple[str, ...]:
    """Return the schedulers that can be selected without loading a module."""
    return tuple(system.read(disk.path(SCHEDULER)).replace("[", "").replace("]", "").split())


def present_values(system: System, disk: Disk) -> dict[str, str]:
    """Return the knobs that this disk has on this kernel, with their values."""
    names = [knob.name for knob in DEVICE_KNOBS]
    return dict(_readable(system, disk, names))


def steady_values(system: System, disk: Disk) -> dict[str, str]:
    """Return `present_values` without shares of the dirty threshold, which change with it.

    They show whether the disk is unchanged.
    """
    values = present_values(system, disk)
    return {name: v for name, v in values.items() if not DEVICE_BY_NAME[name].is_rounded}


def kept_values(system: System, disk: Disk) -> dict[str, str]:
    """Return the values that restore the disk's current state, by attribute, exact if possible."""
    kept: dict[str, str] = {}
    for alternatives in dict.fromkeys(_KEPT.values()):
        kept.update(list(_readable(system, disk, alternatives))[:1])
    return kept


def check_kept(disk: Disk, names: Iterable[str], kept: Mapping[str, str]) -> None:
    """Raise HostError for a knob whose value cannot be restored from `kept`."""
    for name in names:
        if not any(attribute in kept for attribute in _KEPT[name]):
            raise HostError(f"{disk.name}: {name} cannot be set, since its value cannot be read")


def _readable(
    system: System, disk: Disk, attributes: tuple[str, ...] | list[str]
) -> list[tuple[str, str]]:
    """Return the readable attributes; wbt_lat_usec may exist and be unreadable."""
    values = []
    for attribute in attributes:
        if lacking(system, disk, attribute):
            continue
        with contextlib.suppress(HostError):
            values.append((attribute, read_attribute(system, disk, attribute)))
    return values


def write_kept(system: System, disk: Disk, kept: Mapping[str, str]) -> None:
    """Restore the values of `kept_values` that differ, and read them back.

    Refused values are tried again after the rest, because a largest share cannot go below a
    smallest one that is still to be lowered. Raises HostError if they are refused again.
    """
    refused = [name for name in kept if not _is_written(system, disk, name, kept[name])]
    for name in refused:
        _write(system, disk, name, kept[name])


def _is_written(system: System, disk: Disk, attribute: str, value: str) -> bool:
    try:
        if read_attribute(system, disk, attribute) != value:
            _write(system, disk, attribute, value)
    except HostError:
        return False
    return True


def write_values(system: System, disk: Disk, values: Mapping[str, str]) -> None:
    """Set knobs, the scheduler first, and read each back. Raises HostError."""
    if values and not is_there(system, disk):
        raise HostError(f"{disk.name} is no longer the same disk as when the sweep began")
    for knob in DEVICE_KNOBS:
        if knob.name in values:
            reason = lacking(system, disk, knob.name)
            if reason:
                raise HostError(f"{knob.name} cannot be set: {reason}")
            _check_scheduler(system, disk, knob.name, values[knob.name])
            _write(system, disk, knob.name, values[knob.name])


def unavailable(system: System, disk: Disk, name: str, value: str) -> str | None:
    """Return why this disk lacks the knob or value, as far as reading shows it; None if not."""
    try:
        reason = lacking(system, disk, name)
        if reason is None:
            _check_scheduler(system, disk, name, value)
    except HostError as error:
        return error.message
    return reason


def _check_scheduler(system: System, disk: Disk, name: str, value: str) -> None:
    offered = schedulers(system, disk) if name == SCHEDULER else (value,)
    if value not in offered:
        raise HostError(f"{disk.name} offers the schedulers {', '.join(offered)}, not {value}")


def _write(system: System, disk: Disk, attribute: str, value: str) -> None:
    system.write(disk.path(attribute), value)
    present = read_attribute(system, disk, attribute)
    if not is_same(attribute, value, present):
        raise HostError(f"{disk.name} {attribute} was set to {value} but reads back as {present}")


def is_same(attribute: str, wanted: str, present: str) -> bool:
    """Return whether a value reads back as written; one stored as a share only approximately."""
    knob = DEVICE_BY_NAME.get(attribute)
    if knob is None or not knob.is_rounded:
        return wanted == present
    return abs(int(present) - int(wanted)) <= _ROUNDING * int(wanted)
