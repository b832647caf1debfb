# SPDX-License-Identifier: Apache-2.0
"""Log pages of an EBS volume, packed from the table of its layout, and the sysfs of a node."""

from __future__ import annotations

import struct
from pathlib import Path

MAGIC = 0x3C23B510
#: The offset of each counter.
OFFSETS = {
    "read_ops": 8,
    "write_ops": 16,
    "read_bytes": 24,
    "write_bytes": 32,
    "read_time_us": 40,
    "write_time_us": 48,
    "volume_iops_exceeded_us": 56,
    "volume_throughput_exceeded_us": 64,
    "instance_iops_exceeded_us": 72,
    "instance_throughput_exceeded_us": 80,
    "queue_length": 88,
}
READ_HISTOGRAM, WRITE_HISTOGRAM = 512, 2056


def page(*, magic=MAGIC, read_bins=(), write_bins=(), **counters):
    """Return 4096 bytes; counters are 0 unless given, bins are (lower, upper, count)."""
    made = bytearray(4096)
    struct.pack_into("<I", made, 0, magic)
    for name, value in counters.items():
        struct.pack_into("<Q", made, OFFSETS[name], value)
    for offset, bins in ((READ_HISTOGRAM, read_bins), (WRITE_HISTOGRAM, write_bins)):
        struct.pack_into("<Q", made, offset, len(bins))
        for at, each in enumerate(bins[:64]):
            struct.pack_into("<QQI", made, offset + 8 + 24 * at, *each)
    return bytes(made)


def sysfs_with(
    folder: Path,
    disk="nvme1n1",
    vendor="0x1d0f",
    model="Amazon Elastic Block Store",
    serial="vol0123456789abcdef0",
):
    """Return a sysfs that also has this NVMe disk; None leaves a file out."""
    device = folder / "block" / disk / "device"
    (device / "device").mkdir(parents=True)
    (folder / "block" / disk / "size").write_text("16777216\n")
    files = {"model": model and model.ljust(40), "serial": serial, "device/vendor": vendor}
    for name, text in files.items():
        if text is not None:
            (device / name).write_text(f"{text}\n")
    return folder
