# SPDX-License-Identifier: Apache-2.0
"""The named volumes' dirty pages, from the kernel's statistics of each backing device.

`bdi/MAJOR:MINOR/stats` of debugfs (mm/backing-dev.c, `bdi_debug_stats_show()`, Linux 6.18). To
print it, the kernel counts the inodes with dirty pages, about 50 ns each, under a lock that writers
need. So if a reading takes long, the next ones wait until they take at most `_SHARE` of the time.
What it takes is CPU time: on a busy host, or one that was suspended, it may also wait for a CPU.
Kernels without `wb_stats` (before 6.10) print only the pages of the root control group.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from profiler.bpf.disks import disk_number
from profiler.govern.reader import HostReader, WritersReader, number_after
from sysctl.govern.samples import VolumeState
from sysctl.host.kernel_filesystems import open_debugfs
from sysctl.host.memory_group import has_dirty_limits
from sysctl.host.mount_table import Mount, mount_at, mount_of
from sysctl.host.system import HostError, System

_FIELDS = (b"\nBdiReclaimable:", b"\nBdiWriteback:", b"\nBdiDirtied:", b"\nBdiWritten:")
_STATS_BYTES = 4096
#: A reading that takes longer has counted many inodes. Such ones may take this share of the time.
_LONG_NS, _SHARE = 200_000, 0.01
#: A volume that is gone is looked for again after this time.
_AGAIN_NS = 10**9


@dataclass(frozen=True)
class NamedVolume:
    """A volume: where it is mounted, and its backing device as the kernel names it."""

    target: str
    backing: str


def named_volumes(
    destinations: Sequence[Path], mounts: Sequence[Mount], sysfs: Path = Path("/sys")
) -> tuple[NamedVolume, ...]:
    """Return the volumes of directories, each once. Raises UsageError for one without a volume."""
    found: dict[str, NamedVolume] = {}
    for destination in destinations:
        place = destination.resolve()
        if not place.is_dir():
            raise UsageError(
                f"{printable(str(destination))} is not a directory",
                "pass the directory, or the mount point, that pulls write to",
            )
        volume = _volume_of(mount_of(mounts, str(place)), mounts, sysfs)
        found.setdefault(volume.backing, volume)
    return tuple(found.values())


def _volume_of(mount: Mount, mounts: Sequence[Mount], sysfs: Path) -> NamedVolume:
    upper = next((o for o in mount.super_options if o.startswith("upperdir=/")), None)
    if mount.fstype == "overlay" and upper:
        below = mount_of(mounts, upper.partition("=")[2])
        if below != mount:
            return _volume_of(below, mounts, sysfs)
    if mount.fstype in ("tmpfs", "ramfs", "overlay"):
        raise UsageError(
            f"{printable(mount.target)} ({mount.fstype}) has no device that data is written to",
            "name a directory on a disk",
        )
    is_device = (sysfs / "dev/block" / mount.device).exists()
    number = disk_number(mount.device, sysfs) if is_device else mount.device
    return NamedVolume(mount.target, number)


def every_volume(mounts: Sequence[Mount], sysfs: Path = Path("/sys")) -> tuple[NamedVolume, ...]:
    """Return each volume with a block device that is mounted to write, once."""
    found: dict[str, NamedVolume] = {}
    for mount in mounts:
        is_disk = (sysfs / "dev/block" / mount.device).exists()
        if is_disk and "rw" in mount.options and "ro" not in mount.super_options:
            volume = _volume_of(mount, mounts, sysfs)
            found.setdefault(volume.backing, volume)
    return tuple(found.values())


def backing_at(
    target: str, mounts: Sequence[Mount] | None = None, sysfs: Path = Path("/sys")
) -> str | None:
    """Return the backing device of what is mounted at a place; None if no volume is."""
    table = System().mounts() if mounts is None else mounts
    mount = mount_at(table, target)
    with suppress(UsageError):
        return _volume_of(mount, table, sysfs).backing if mount else None
    return None


@contextmanager
def opened_volumes(
    volumes: Sequence[NamedVolume], *, are_named: bool = True
) -> Iterator[tuple[tuple[NamedVolume, ...], int]]:
    """Yield the volumes, and a descriptor of debugfs that has their statistics.

    A volume that the kernel does not count is left out, unless the user has named it. Raises
    RequirementError, and HostError for such a volume or if none is left.
    """
    debugfs = open_debugfs()
    try:
        absent = missing(volumes, debugfs)
        if absent and are_named:
            raise HostError(
                f"the kernel has no dirty-page statistics of {absent[0].target}",
                "govern a volume with a block device of its own; btrfs has none",
            )
        counted = tuple(volume for volume in volumes if volume not in absent)
        if not counted:
            raise HostError(
                "no volume is mounted here that the kernel has dirty-page statistics of",
                "name a directory on the volume that the command writes to, with --on DIR",
            )
        yield counted, debugfs
    finally:
        os.close(debugfs)


class VolumeReader:
    """Reads the volumes' states; `debugfs` is a descriptor of its root, closed by the caller."""

    def __init__(
        self,
        volumes: Sequence[NamedVolume],
        debugfs: int,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        find: Callable[[str], str | None] = backing_at,
    ) -> None:
        """`find` returns the backing device at the mount point of a volume that was gone."""
        self._clock_ns, self._cpu_ns = clock_ns, cpu_ns
        self._files = [_StatsFile(volume, debugfs, clock_ns, find) for volume in volumes]
        self._states: tuple[VolumeState | None, ...] = ()
        self._due_ns = 0

    def read(self) -> tuple[VolumeState | None, ...]:
        """Return the volumes' states; None for one that is gone."""
        began_ns = self._clock_ns()
        if began_ns >= self._due_ns or not self._states:
            began_cpu_ns = self._cpu_ns()
            self._states = tuple(file.read() for file in self._files)
            self._due_ns = began_ns + self._rest_ns(self._cpu_ns() - began_cpu_ns)
        return self._states

    @staticmethod
    def _rest_ns(took_ns: int) -> int:
        """Return how long to wait; a reading during which an interrupt came does not count."""
        return round(took_ns / _SHARE) if took_ns > _LONG_NS else 0

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


@contextmanager
def opened_reader(
    volumes: Sequence[NamedVolume],
    debugfs: int,
    writers: WritersReader | None = None,
    *,
    counts_host: bool = False,
) -> Iterator[HostReader]:
    """Yield what reads samples of the host with these volumes. Raises OSError."""
    with ExitStack() as stack:
        volume_reader = stack.enter_context(closing(VolumeReader(volumes, debugfs)))
        reader = HostReader(volume_reader.read, writers=writers, counts_host=counts_host)
        yield stack.enter_context(closing(reader))


class _StatsFile:
    """The statistics of one volume, opened once, and again if its device was gone.

    A volume may come back as another device, and another disk may get the number of one that is
    gone. So then the device is that of the mount point.
    """

    def __init__(
        self,
        volume: NamedVolume,
        debugfs: int,
        clock_ns: Callable[[], int],
        find: Callable[[str], str | None],
    ) -> None:
        self._backing: str | None = volume.backing
        self._target, self._find = volume.target, find
        self._debugfs, self._clock_ns = debugfs, clock_ns
        self._descriptor: int | None = None
        self._again_ns = 0

    def read(self) -> VolumeState | None:
        """Return the state; None if the device is gone."""
        try:
            if self._descriptor is None:
                self._open()
            if self._descriptor is None:
                return None
            text = os.pread(self._descriptor, _STATS_BYTES, 0)
        except OSError:  # EIO: the device was removed; ENOENT: it has not returned
            self.close()
            self._backing = None
            return None
        text = b"\n" + text
        return VolumeState(*(number_after(text, field) * 1024 for field in _FIELDS))

    def _open(self) -> None:
        now_ns = self._clock_ns()
        if now_ns >= self._again_ns:
            self._again_ns = now_ns + _AGAIN_NS
            backing = self._backing or self._find(self._target)
            if backing is not None:
                path, flags = f"bdi/{backing}/stats", os.O_RDONLY | os.O_CLOEXEC
                self._descriptor = os.open(path, flags, dir_fd=self._debugfs)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def counts_every_group(
    volumes: Sequence[NamedVolume], debugfs: int, system: System | None = None
) -> bool:
    """Return whether the kernel counts the pages of all control groups, not only the root's.

    Without dirty limits of groups, all pages count for the root group.
    """
    has_stats_of_groups = all(
        _exists(f"bdi/{volume.backing}/wb_stats", debugfs) for volume in volumes
    )
    return has_stats_of_groups or not has_dirty_limits(system or System())


def missing(volumes: Sequence[NamedVolume], debugfs: int) -> tuple[NamedVolume, ...]:
    """Return the volumes of which the kernel has no statistics."""
    return tuple(v for v in volumes if not _exists(f"bdi/{v.backing}/stats", debugfs))


def _exists(path: str, debugfs: int) -> bool:
    try:
        os.stat(path, dir_fd=debugfs)
    except OSError:
        return False
    return True
