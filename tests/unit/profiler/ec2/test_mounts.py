# SPDX-License-Identifier: Apache-2.0
"""The disks below a directory: partitions, LVM over several disks, btrfs, and none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profiler.ec2 import mounts
from profiler.ec2.mounts import Mounts, read_mounts
from sysctl.host.mount_table import parse_mountinfo

TABLE = """\
21 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw
22 21 259:2 / /data rw - xfs /dev/nvme1n1 rw
23 21 259:2 /sub /srv rw - xfs /dev/nvme1n1 rw
24 21 253:0 / /lvm rw - xfs /dev/mapper/vg-lv rw
25 21 0:40 / /butter rw - btrfs {device} rw
26 21 0:41 / /tmp rw - tmpfs tmpfs rw
27 21 0:42 / /gone rw - btrfs /dev/nonexistent rw
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A root on a partition, a volume at two places, LVM over two volumes, and btrfs."""
    devices = tmp_path / "devices"
    numbers = {
        "259:1": "nvme0n1/nvme0n1p1",
        "259:2": "nvme1n1",
        "253:0": "dm-0",
        "8:3": "nvme4n1",
    }
    for disk in ("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1", "nvme4n1", "dm-0"):
        (devices / disk / "queue").mkdir(parents=True)
    (devices / "nvme0n1/nvme0n1p1").mkdir()
    (devices / "nvme0n1/nvme0n1p1/partition").write_text("1\n")
    (devices / "dm-0/slaves").mkdir()
    for disk in ("nvme2n1", "nvme3n1"):
        (devices / "dm-0/slaves" / disk).symlink_to(devices / disk)
    (tmp_path / "dev/block").mkdir(parents=True)
    for number, place in numbers.items():
        (tmp_path / "dev/block" / number).symlink_to(devices / place)
    monkeypatch.setattr(mounts, "device_of", {"/dev/nvme4n1": "8:3"}.get)
    return Mounts(parse_mountinfo(TABLE.format(device="/dev/nvme4n1")), tmp_path)


@pytest.mark.parametrize(
    ("path", "disks"),
    [
        ("/", {"nvme0n1"}),
        ("/home", {"nvme0n1"}),
        ("/data/images", {"nvme1n1"}),
        ("/lvm", {"nvme2n1", "nvme3n1"}),
        ("/butter", {"nvme4n1"}),
        ("/tmp", set()),
        ("/gone", set()),
    ],
)
def test_the_disks_below(table, path, disks):
    assert table.disks(path) == disks


def test_where_a_disk_is_mounted(table):
    assert table.targets("nvme1n1") == ("/data", "/srv")
    assert table.targets("nvme2n1") == ("/lvm",)
    assert table.targets("nvme9n1") == ()


def test_a_chroot_has_no_mounts():
    assert Mounts(()).disks("/") == frozenset()


def test_this_host():
    table = read_mounts()
    assert "/proc" in {each.target for each in table.table}
    assert table.disks("/proc") == frozenset()


def test_the_number_of_a_device_file():
    number = Path("/dev/null").stat().st_rdev
    assert mounts.device_of("/dev/null") == f"{os.major(number)}:{os.minor(number)}"
    assert mounts.device_of("/dev/nonexistent") is None
