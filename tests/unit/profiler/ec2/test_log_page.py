# SPDX-License-Identifier: Apache-2.0
"""The log page of an EBS volume: its bytes, what is refused, and the difference of two readings."""

from __future__ import annotations

import os
import struct

import pytest

from profiler.ec2.log_page import (
    Bin,
    LogPageError,
    has_log_page,
    open_disk,
    parse,
    read_page,
    since,
)
from tests.log_pages import OFFSETS, page, sysfs_with


def test_every_counter_is_where_the_layout_has_it():
    counters = {name: 1000 + at for at, name in enumerate(OFFSETS)}
    read = parse(page(**counters, read_bins=[(0, 1, 7)], write_bins=[(1, 2, 8), (2, 4, 9)]))
    assert {name: getattr(read, name) for name in OFFSETS} == counters
    assert read.read_latencies == (Bin(0, 1, 7),)
    assert read.write_latencies == (Bin(1, 2, 8), Bin(2, 4, 9))
    assert (read.ops, read.bytes) == (1000 + 1001, 1002 + 1003)
    assert read.exceeded_us == (1006, 1007, 1008, 1009)


def test_counters_have_64_bits_and_histograms_64_bins():
    full = [(at, at + 1, 2**32 - 1) for at in range(64)]
    read = parse(page(write_bytes=2**64 - 1, read_bins=full, write_bins=full))
    assert read.write_bytes == 2**64 - 1
    assert len(read.read_latencies) == len(read.write_latencies) == 64


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (page(magic=0x3C23B511), r"begins with 0x3c23b511, not with 0x3c23b510"),
        (bytes(4096), r"begins with 0x00000000"),
        (page()[:4095], r"has 4095 of 4096 bytes"),
        (b"", r"has 0 of 4096 bytes"),
        (page(read_bins=[(0, 1, 1)] * 65), r"has 65 bins, more than 64"),
        (page(write_bins=[(0, 1, 1)] * 65), r"has 65 bins, more than 64"),
    ],
    ids=["wrong magic", "zeros", "short", "empty", "65 read bins", "65 write bins"],
)
def test_what_is_not_the_page_is_refused(bad, says):
    with pytest.raises(LogPageError, match=says):
        parse(bad)


def test_a_count_of_bins_beyond_all_memory_is_refused_at_once():
    huge = bytearray(page())
    struct.pack_into("<Q", huge, 512, 2**64 - 1)
    with pytest.raises(LogPageError, match="more than 64"):
        parse(bytes(huge))


def test_the_difference_of_two_readings():
    before = parse(page(write_ops=5, volume_iops_exceeded_us=10, queue_length=9))
    after = parse(page(write_ops=12, volume_iops_exceeded_us=10, queue_length=3))
    counted = since(before, after)
    assert (counted.write_ops, counted.volume_iops_exceeded_us, counted.queue_length) == (7, 0, 3)


@pytest.mark.parametrize("name", [name for name in OFFSETS if name != "queue_length"])
def test_a_counter_that_went_back_is_an_attachment_anew(name):
    with pytest.raises(LogPageError, match="began again"):
        since(parse(page(**{name: 8})), parse(page(**{name: 7})))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"vendor": "0x1b36"}, False),
        ({"vendor": None}, False),
        ({"model": "Amazon EC2 NVMe Instance Storage"}, False),
        ({"model": "QEMU NVMe Ctrl"}, False),
        ({"model": None}, False),
    ],
)
def test_only_ebs_on_amazons_controller_has_the_page(tmp_path, changes, expected):
    assert has_log_page("nvme1n1", sysfs_with(tmp_path, **changes)) is expected
    assert not has_log_page("nvme2n1", tmp_path)


def test_a_symlink_is_not_opened(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "nvme1n1").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="symbolic links"):
        open_disk("nvme1n1", tmp_path)


def test_what_is_not_a_block_device_is_closed_again(tmp_path):
    (tmp_path / "nvme1n1").write_bytes(page())
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LogPageError, match="not a block device"):
        open_disk("nvme1n1", tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_does_not_know_the_command_refuses_it(tmp_path):
    """The kernel answers ENOTTY for a file."""
    with (tmp_path / "file").open("wb+") as file, pytest.raises(OSError, match="ioctl"):
        read_page(file.fileno())
