# SPDX-License-Identifier: Apache-2.0
"""The NVMe log page in which an EBS volume counts its I/O and the time over its limits.

Layout: amazon-ec2-utils, `ebsnvme` at 066b044, and nvme-cli's plugin `amzn`; the counters are of
the attachment. https://docs.aws.amazon.com/ebs/latest/userguide/nvme-detailed-performance-stats.html
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import struct
from dataclasses import dataclass, replace
from pathlib import Path

PAGE_BYTES = 4096
MAGIC = 0x3C23B510
#: Bins that a histogram of the page has room for.
MOST_BINS = 64
_AMAZON = "0x1d0f"
EBS_MODEL = "Amazon Elastic Block Store"

_COUNTERS = struct.Struct("<I4x11Q")
_BIN_COUNT = struct.Struct("<Q")
_BIN = struct.Struct("<QQI4x")
_READ_HISTOGRAM, _WRITE_HISTOGRAM = 512, 2056

#: include/uapi/linux/nvme_ioctl.h: _IOWR('N', 0x41, struct nvme_passthru_cmd).
_ADMIN_COMMAND = 0xC0484E41
#: struct nvme_passthru_cmd: opcode, flags, nsid, cdw2, cdw3, metadata, addr, metadata_len,
#: data_len, cdw10 to cdw15, timeout_ms (0: the kernel's default), result.
_COMMAND = struct.Struct("=BB2xIIIQQIIIIIIIIII")
_GET_LOG_PAGE, _NAMESPACE, _LOG_ID = 0x02, 1, 0xD0


class LogPageError(Exception):
    """The page cannot be read or is not as described; the message has no full stop."""


@dataclass(frozen=True)
class Bin:
    """The number of I/Os that took from `lower_us` to `upper_us`."""

    lower_us: int
    upper_us: int
    count: int


@dataclass(frozen=True)
class LogPage:
    """The counters since the volume was attached, as the page names them; times in µs.

    The time `…_exceeded_us` is that in which more was asked for than the limit allows.
    `queue_length` is that of the moment.
    """

    read_ops: int
    write_ops: int
    read_bytes: int
    write_bytes: int
    read_time_us: int
    write_time_us: int
    volume_iops_exceeded_us: int
    volume_throughput_exceeded_us: int
    instance_iops_exceeded_us: int
    instance_throughput_exceeded_us: int
    queue_length: int
    read_latencies: tuple[Bin, ...] = ()
    write_latencies: tuple[Bin, ...] = ()

    @property
    def ops(self) -> int:
        """Reads and writes together."""
        return self.read_ops + self.write_ops

    @property
    def bytes(self) -> int:
        """Bytes read and written together."""
        return self.read_bytes + self.write_bytes

    @property
    def exceeded_us(self) -> tuple[int, int, int, int]:
        """The time over the limits: volume IOPS and throughput, instance IOPS and throughput."""
        return (
            self.volume_iops_exceeded_us,
            self.volume_throughput_exceeded_us,
            self.instance_iops_exceeded_us,
            self.instance_throughput_exceeded_us,
        )


def parse(page: bytes) -> LogPage:
    """Return the counters of a page. Raises LogPageError for one that is not as described."""
    if len(page) < PAGE_BYTES:
        raise LogPageError(f"the log page has {len(page)} of {PAGE_BYTES} bytes")
    magic, *counters = _COUNTERS.unpack_from(page)
    if magic != MAGIC:
        raise LogPageError(f"the log page begins with {magic:#010x}, not with {MAGIC:#010x}")
    return replace(
        LogPage(*counters),
        read_latencies=_histogram(page, _READ_HISTOGRAM),
        write_latencies=_histogram(page, _WRITE_HISTOGRAM),
    )


def _histogram(page: bytes, offset: int) -> tuple[Bin, ...]:
    (count,) = _BIN_COUNT.unpack_from(page, offset)
    if count > MOST_BINS:
        raise LogPageError(f"a histogram of the log page has {count} bins, more than {MOST_BINS}")
    first = offset + _BIN_COUNT.size
    return tuple(Bin(*_BIN.unpack_from(page, first + i * _BIN.size)) for i in range(count))


def since(before: LogPage, after: LogPage) -> LogPage:
    """Return what was counted between two readings; the queue's length is the later one.

    It has no histograms. Raises LogPageError if a counter went back: the volume was attached anew,
    and what it counted in between is lost.
    """
    went_back = [name for name in _GROWING if getattr(after, name) < getattr(before, name)]
    if went_back:
        raise LogPageError("the volume's counters began again: it was attached anew")
    grown = {name: getattr(after, name) - getattr(before, name) for name in _GROWING}
    return LogPage(**grown, queue_length=after.queue_length)


_GROWING = tuple(
    name
    for name in LogPage.__dataclass_fields__
    if name not in ("queue_length", "read_latencies", "write_latencies")
)


def has_log_page(disk: str, sysfs: Path = Path("/sys")) -> bool:
    """Return whether a disk is an EBS volume on Amazon's own controller, by sysfs alone.

    No other controller is sent the command: the log identifier is a vendor's own.
    """
    device = sysfs / "block" / disk / "device"  # the controller; its device is that of the bus
    return _text(device / "model") == EBS_MODEL and _text(device / "device/vendor") == _AMAZON


def _text(path: Path) -> str | None:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return None


def open_disk(disk: str, dev: Path = Path("/dev")) -> int:
    """Return a descriptor of a disk, read-only. Raises OSError, and LogPageError for no disk."""
    descriptor = os.open(dev / disk, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISBLK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LogPageError(f"{dev / disk} is not a block device")
    return descriptor


def read_page(descriptor: int, log_id: int = _LOG_ID, size_bytes: int = PAGE_BYTES) -> bytes:
    """Return a log page of an open NVMe disk.

    The kernel asks for CAP_SYS_ADMIN at each call, not only when the disk is opened
    (drivers/nvme/host/ioctl.c, nvme_cmd_allowed, Linux 6.18). Raises OSError, and LogPageError if
    the controller refuses the command.
    """
    page = ctypes.create_string_buffer(size_bytes)
    address = ctypes.addressof(page)
    # Bits 31:16 of dword 10 are NUMDL, the number of dwords less one (NVM Express Base
    # Specification 2.0, figure 197; libnvme, nvme_get_log: (len >> 2) - 1; QEMU, hw/nvme/ctrl.c,
    # nvme_get_log: (numd + 1) << 2). `ebsnvme` passes 1024: 4 bytes more than its buffer has.
    dword_10 = log_id | (size_bytes // 4 - 1) << 16
    command = bytearray(
        _COMMAND.pack(
            *(_GET_LOG_PAGE, 0, _NAMESPACE, 0, 0, 0, address, 0, size_bytes),
            *(dword_10, 0, 0, 0, 0, 0, 0, 0),
        )
    )
    status = fcntl.ioctl(descriptor, _ADMIN_COMMAND, command)
    if status:
        raise LogPageError(f"the disk refused the log page (NVMe status {status:#x})")
    return page.raw
