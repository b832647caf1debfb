# SPDX-License-Identifier: Apache-2.0
"""The disks below a path, on a sysfs and a mount table that the test makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from profiler.bpf.disks import BlockDevice, bottom_devices, devices_of
from sysctl.host.mount_table import Mount, parse_mountinfo

MOUNTS = """\
21 1 259:2 / / rw - ext4 /dev/nvme0n1p1 rw
22 21 0:5 / /proc rw - proc proc rw
23 21 0:6 / /shm rw - tmpfs tmpfs rw
24 21 253:0 / /made-up rw - xfs /dev/mapper/data rw
25 24 7:0 / /made-up/lab rw - xfs /dev/loop0 rw
26 21 0:40 / /merged rw - overlay overlay rw,lowerdir=/lower,upperdir=/made-up/up\\040per,workdir=/w
27 21 0:41 / /other rw - overlay overlay rw,lowerdir=/lower
28 21 0:42 / /btrfs rw - btrfs /dev/null rw
29 21 251:0 / /zram rw - ext4 /dev/zram0 rw
30 21 259:2 /bound /bind rw - ext4 /dev/nvme0n1p1 rw
"""
ROOT = BlockDevice("nvme0n1", 259 << 20)
FIRST, SECOND = BlockDevice("nvme1n1", 259 << 20 | 5), BlockDevice("nvme2n1", 259 << 20 | 6)
LOOP = BlockDevice("loop0", 7 << 20, (ROOT.number,))


def test_below_a_root_in_no_mount_no_disk_is_known(tmp_path: Path) -> None:
    assert devices_of(("/",), (), tmp_path) == ()


@pytest.fixture
def mounts() -> Sequence[Mount]:
    return parse_mountinfo(MOUNTS)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """nvme0n1 with a partition, dm-0 on nvme1n1 and a partition of nvme2n1, loop0, zram0."""
    block = tmp_path / "dev/block"
    block.mkdir(parents=True)

    def device(name: str, number: str, *marks: str) -> Path:
        folder = tmp_path / "devices" / name
        folder.mkdir(parents=True)
        (folder / "dev").write_text(f"{number}\n")
        for mark in marks:
            (folder / mark).mkdir()
        (block / number).symlink_to(folder)
        return folder

    def partition(name: str, number: str) -> Path:
        folder = device(name, number)
        (folder / "partition").write_text("1\n")
        return folder

    device("nvme0n1", "259:0", "mq")
    partition("nvme0n1/nvme0n1p1", "259:2")
    first = device("nvme1n1", "259:5", "mq")
    device("nvme2n1", "259:6", "mq")
    second = partition("nvme2n1/nvme2n1p3", "259:7")
    mapped = device("dm-0", "253:0", "slaves")
    for slave in (first, second):
        (mapped / "slaves" / slave.name).symlink_to(slave)
    loop = device("loop0", "7:0", "mq", "loop")
    (loop / "loop/backing_file").write_text("/var/volume.img (deleted)\n")
    device("zram0", "251:0", "slaves")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/made-up/lab/deep", [LOOP]),
        ("/made-up", [FIRST, SECOND, LOOP]),  # with what is mounted below
        ("/database", [ROOT]),
        ("/", [ROOT, FIRST, SECOND, LOOP]),
        ("/bind/deep", [ROOT]),
        ("/merged", [FIRST, SECOND]),
        ("/shm", []),
        ("/other", []),  # an overlay that cannot be written to
        ("/btrfs", []),  # the table names no disk
        ("/zram", []),  # a disk without requests
        ("/proc/1", []),
    ],
)
def test_disks_below_a_path(
    path: str, expected: list[BlockDevice], mounts: Sequence[Mount], sysfs: Path
) -> None:
    assert list(devices_of([path], mounts, sysfs)) == expected


def test_each_disk_comes_once(mounts: Sequence[Mount], sysfs: Path) -> None:
    assert devices_of(["/a", "/b", "/made-up/lab", "/made-up/lab/x"], mounts, sysfs) == (ROOT, LOOP)


def test_a_disk_that_sysfs_does_not_have(mounts: Sequence[Mount], tmp_path: Path) -> None:
    assert devices_of(["/"], mounts, tmp_path) == ()


def test_what_lies_on_another_is_counted_there() -> None:
    assert bottom_devices([ROOT, LOOP]) == (ROOT,)
    assert bottom_devices([FIRST, LOOP]) == (FIRST, LOOP)


def test_a_volume_on_disks_that_lie_on_a_volume_is_counted_at_the_lowest(tmp_path: Path) -> None:
    """LVM on dm-crypt on a disk, and on a loop device: requests are those of the two."""
    block = tmp_path / "dev/block"
    block.mkdir(parents=True)
    for number, name in (("253:1", "dm-1"), ("253:0", "dm-0"), ("259:5", "nvme1n1"), ("7:1", "l")):
        folder = tmp_path / "devices" / name
        (folder / "slaves").mkdir(parents=True)
        (folder / "dev").write_text(f"{number}\n")
        (block / number).symlink_to(folder)
    for upper, lower in (("dm-1", "dm-0"), ("dm-1", "l"), ("dm-0", "nvme1n1")):
        link = tmp_path / "devices" / upper / "slaves" / lower
        link.symlink_to(tmp_path / "devices" / lower)
    for name in ("nvme1n1", "l"):
        (tmp_path / "devices" / name / "mq").mkdir()
    mounts = parse_mountinfo("24 21 253:1 / /data rw - xfs /dev/mapper/vg-data rw\n")
    assert [disk.name for disk in devices_of(["/data"], mounts, tmp_path)] == ["nvme1n1", "l"]
