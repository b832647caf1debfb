"""The knobs of one disk in sysfs: found from its mount, read, set in a safe order, read back.

The hazards (kernel block/elevator.c and mm/backing-dev.c, as of Linux 6.18): another scheduler
brings its own nr_requests; writing the name of one that is not loaded would load its module;
max_ratio and max_bytes are one value, and the largest share may never be below the smallest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.host.mount_table import Mount
from sysctl.host.system import HostError, System
from sysctl.knobs.block import NR_REQUESTS, READ_AHEAD, SCHEDULER, WBT
from sysctl.knobs.catalogue import DEVICE_BY_NAME, DEVICE_KNOBS

#: What is kept of a disk, in the order in which it is written back; of several the first there is.
_KEPT = (
    (SCHEDULER,),
    (NR_REQUESTS,),
    (READ_AHEAD,),
    (WBT,),
    ("bdi/max_ratio_fine", "bdi/max_ratio"),
    ("bdi/min_ratio_fine", "bdi/min_ratio"),
    ("bdi/strict_limit",),
)
#: Knobs of a queue of requests. A device made of others (device mapper, md) passes writes on before
#: they are requests: it has none, although some kernels show the files (block/blk-sysfs.c of 6.1).
_OF_REQUESTS = (SCHEDULER, NR_REQUESTS, WBT)
_ROUNDING = 0.01


@dataclass(frozen=True)
class Disk:
    """A disk: its name in /sys/block, MAJOR:MINOR, and which disk of that name it is.

    `sequence` counts the disks of this boot (diskseq, since Linux 5.15; empty before): a loop
    device that was attached anew has another one.
    """

    name: str
    number: str
    sequence: str

    def path(self, attribute: str) -> str:
        """Where `queue/nr_requests` or `bdi/max_ratio` of this disk is."""
        folder, _, file = attribute.partition("/")
        if folder == "bdi":
            return f"/sys/class/bdi/{self.number}/{file}"
        return f"/sys/block/{self.name}/{folder}/{file}"


def disk_of(system: System, mount: Mount) -> Disk:
    """The disk that holds a mount. Raises HostError where it is on none of its own.

    A partition stands for its disk. A device made of others (device mapper, md) stands for itself:
    read-ahead and the limits of dirty memory are its own, not those of the disks below. btrfs,
    overlay, tmpfs and network file systems are on no single device for the kernel.
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
    """Whether this very disk is still there, and not another one under its name."""
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
        return f"{disk.name} has no queue of requests of its own{on}"
    if not system.exists(disk.path(name)):
        return "this kernel does not have it for this disk"
    return None


def read_attribute(system: System, disk: Disk, attribute: str) -> str:
    """The present value; of the schedulers the one in use. Raises HostError."""
    text = system.read(disk.path(attribute))
    if attribute == SCHEDULER:
        return text.partition("[")[2].partition("]")[0] or text
    return text


def schedulers(system: System, disk: Disk) -> tuple[str, ...]:
    """The schedulers that can be chosen without loading a module."""
    return tuple(system.read(disk.path(SCHEDULER)).replace("[", "").replace("]", "").split())


def present_values(system: System, disk: Disk) -> dict[str, str]:
    """The knobs that this disk has on this kernel, with their values."""
    names = [knob.name for knob in DEVICE_KNOBS]
    return dict(_readable(system, disk, names))


def steady_values(system: System, disk: Disk) -> dict[str, str]:
    """`present_values` without those that move with the dirty threshold, of which they are shares.

    To tell whether the disk is as it was.
    """
    values = present_values(system, disk)
    return {name: v for name, v in values.items() if not DEVICE_BY_NAME[name].is_rounded}


def kept_values(system: System, disk: Disk) -> dict[str, str]:
    """What brings the disk back to how it is now, by attribute, exact as far as it can be."""
    kept: dict[str, str] = {}
    for alternatives in _KEPT:
        kept.update(list(_readable(system, disk, alternatives))[:1])
    return kept


def _readable(
    system: System, disk: Disk, attributes: tuple[str, ...] | list[str]
) -> list[tuple[str, str]]:
    """Those that are there: wbt_lat_usec can be there and refuse to be read."""
    values = []
    for attribute in attributes:
        if lacking(system, disk, attribute):
            continue
        with contextlib.suppress(HostError):
            values.append((attribute, read_attribute(system, disk, attribute)))
    return values


def write_kept(system: System, disk: Disk, kept: Mapping[str, str]) -> None:
    """Write back what `kept_values` told and read it back; only what differs.

    What is refused is tried once more after the rest: a largest share cannot go below a smallest
    one that is still to be lowered. Then raises HostError.
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
        raise HostError(f"{disk.name} is not the disk any more that it was when the sweep began")
    for knob in DEVICE_KNOBS:
        if knob.name in values:
            reason = lacking(system, disk, knob.name)
            if reason:
                raise HostError(f"{knob.name} cannot be set: {reason}")
            _check_scheduler(system, disk, knob.name, values[knob.name])
            _write(system, disk, knob.name, values[knob.name])


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
    """Whether a value reads back as written; one that is kept as a share may be near it."""
    knob = DEVICE_BY_NAME.get(attribute)
    if knob is None or not knob.is_rounded:
        return wanted == present
    return abs(int(present) - int(wanted)) <= _ROUNDING * int(wanted)
