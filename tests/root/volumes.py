# SPDX-License-Identifier: Apache-2.0
"""A volume whose device can fail: an XFS on a loop device whose image lies on another XFS.

After a shutdown of the outer file system every request of the device fails with EIO, as on an EBS
volume that was detached by force. After a new mount it works as before. No device mapper is needed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sysctl.host.mount_table import mount_at
from tests.root.labs import MIB, SYSTEM, wait_until

#: XFS_IOC_GOINGDOWN and "flush the log before", fs/xfs/libxfs/xfs_fs.h as of Linux 6.18.
_GOINGDOWN, _LOGFLUSH = 0x8004587D, 1


@dataclass(frozen=True)
class FailingVolume:
    """An XFS on `device`, mounted on `target`; its image is on the XFS of `outer_image`."""

    outer_image: Path
    outer: Path
    device: str
    target: Path

    @property
    def image(self) -> Path:
        return self.outer / "image"

    def fail(self) -> None:
        """From now on every read and write of the device fails with EIO."""
        descriptor = os.open(self.outer, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _GOINGDOWN, struct.pack("I", _LOGFLUSH))
        finally:
            os.close(descriptor)

    def disappear(self) -> None:
        """The device disappears at its next unmount: a loop device in use is detached then."""
        run("losetup", "--detach", self.device)

    def is_attached(self) -> bool:
        return self.device in run("losetup", "--list", "--noheadings", "--output", "NAME").split()

    def come_back(self) -> None:
        """Bring the device back under its name, with the data that had reached it; not mounted."""
        unmount(self.target)
        if self.is_attached():
            run("losetup", "--detach", self.device)
        unmount(self.outer)
        run("mount", "-o", "loop", self.outer_image, self.outer)
        run("losetup", "--direct-io=on", self.device, self.image)


@contextlib.contextmanager
def failing_volume(folder: Path) -> Iterator[FailingVolume]:
    """Make and mount one; remove all of it at the end, in any state."""
    outer_image, outer, target = folder / "outer.img", folder / "outer", folder / "volume"
    for path in (outer, target):
        path.mkdir(parents=True)
    make_image(outer_image, 640 * MIB)
    device = ""
    try:
        run("mount", "-o", "loop", outer_image, outer)
        make_image(outer / "image", 320 * MIB)
        device = run("losetup", "--find", "--show", "--direct-io=on", outer / "image").strip()
        run("mount", device, target)
        yield FailingVolume(outer_image, outer, device, target)
    finally:
        unmount(target)
        if device and f"{outer}/" in run("losetup", "--list", "--output", "BACK-FILE"):
            run("losetup", "--detach", device)
        unmount(outer)
        is_clear = wait_until(lambda: str(outer_image) not in run("losetup", "--list"), 10)
        assert is_clear, "the kernel detaches a loop device a moment after its unmount"
        outer_image.unlink()


def make_image(path: Path, size_bytes: int) -> None:
    """Make a sparse file with an XFS in it."""
    with path.open("wb") as file:
        file.truncate(size_bytes)
    run("mkfs.xfs", "-q", path)


def unmount(target: Path) -> None:
    """Unmount it as often as the mount table has it: stat() fails on a failed file system."""
    while mount_at(SYSTEM.mounts(), str(target)):
        run("umount", target)


def run(*argv: object) -> str:
    words = [str(word) for word in argv]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout
