# SPDX-License-Identifier: Apache-2.0
"""Requests of a test disk, compared with a known number of writes and with the kernel's count."""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.stats import BUCKET_COUNT
from profiler.bpf import loader
from profiler.bpf.disks import BlockDevice, bottom_devices, devices_of
from profiler.bpf.probes import block
from profiler.bpf.probes.block import DeviceCounters, DeviceStats
from profiler.bpf.session import possible_cpus
from tests.root.hosts import SLOWNESS
from tests.root.profiling import mounted

BLOCK_BYTES = 4096
SECTOR_BYTES = 512


@contextlib.contextmanager
def loop_device(image: Path, size_bytes: int) -> Iterator[Path]:
    """Make a loop device with direct I/O on a file whose blocks are allocated."""
    with image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)
        os.fsync(file.fileno())
    attach = ["losetup", "--find", "--show", "--direct-io=on", str(image)]
    device = subprocess.check_output(attach, text=True).strip()
    try:
        yield Path(device)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def counting(*devices: BlockDevice) -> Iterator[DeviceCounters]:
    numbers = {"BUCKET_COUNT": BUCKET_COUNT, "CPU_COUNT": possible_cpus()}
    with loader.load((block.PROBE,), {**numbers, **block.numbers(len(devices))}) as module:
        yield DeviceCounters(module, [device.number for device in devices], possible_cpus())


def disk(node: Path) -> BlockDevice:
    number = node.stat().st_rdev
    return BlockDevice(node.name, os.major(number) << 20 | os.minor(number))


def write_directly(node: Path, offsets: list[int], flags: int = 0) -> None:
    data = mmap.mmap(-1, BLOCK_BYTES)  # page aligned, as O_DIRECT wants
    fd = os.open(node, os.O_RDWR | os.O_DIRECT | flags)
    try:
        for offset in offsets:
            assert os.pwrite(fd, data, offset) == BLOCK_BYTES
    finally:
        os.close(fd)


def read_directly(node: Path, offset: int, size_bytes: int) -> None:
    fd = os.open(node, os.O_RDONLY | os.O_DIRECT)
    try:
        assert os.preadv(fd, [mmap.mmap(-1, size_bytes)], offset) == size_bytes
    finally:
        os.close(fd)


def kernel_bytes(device: BlockDevice) -> tuple[int, int]:
    """Return the bytes read and written by the kernel's count (Documentation/block/stat.rst)."""
    words = Path(f"/sys/block/{device.name}/stat").read_text().split()
    return int(words[2]) * SECTOR_BYTES, int(words[6]) * SECTOR_BYTES


def settled(counters: DeviceCounters, writes: int) -> DeviceStats:
    """Return the first device's figures once that many writes have completed: a syscall may
    return while the other CPU still handles the completion's tracepoint."""
    deadline = time.monotonic() + 5 * SLOWNESS
    while counters.totals()[0].timed_writes < writes and time.monotonic() < deadline:
        time.sleep(0.01)
    return counters.stats()[0]


def test_direct_writes_are_counted_exactly(tmp_path: Path) -> None:
    with loop_device(tmp_path / "image", 8 << 20) as node, counting(disk(node)) as counters:
        read_before, written_before = kernel_bytes(disk(node))
        first = counters.stats()[0]
        write_directly(node, [number * BLOCK_BYTES for number in range(500)])
        stats = settled(counters, 500).since(first)
        read_after, written_after = kernel_bytes(disk(node))
    assert (stats.writes.count, stats.writes.bytes) == (500, 500 * BLOCK_BYTES)
    assert (stats.writes.failed, stats.writes.untimed) == (0, 0)
    assert stats.writes.bytes == written_after - written_before
    assert stats.reads.bytes == read_after - read_before
    assert sum(stats.writes.buckets) == 500
    latencies = stats.writes.latencies
    assert 0 < latencies.latency_min_ns <= latencies.percentile_ns(50) <= latencies.latency_max_ns


def test_reads_and_flushed_writes(tmp_path: Path) -> None:
    """A write with FUA arrives as a write between flushes and counts once."""
    with loop_device(tmp_path / "image", 8 << 20) as node, counting(disk(node)) as counters:
        first = counters.stats()[0]
        write_directly(node, [0, BLOCK_BYTES, 0], os.O_DSYNC)
        read_directly(node, 4 << 20, 16 * BLOCK_BYTES)
        stats = settled(counters, 3).since(first)
    assert (stats.writes.count, stats.writes.bytes) == (3, 3 * BLOCK_BYTES)
    assert (stats.reads.count, stats.reads.bytes) == (1, 16 * BLOCK_BYTES)
    assert stats.writes.untimed == 0


def test_a_request_that_ends_in_parts_and_fails(tmp_path: Path) -> None:
    """A loop device completes the part that its file still has; its retry of the rest fails."""
    image = tmp_path / "image"
    with loop_device(image, 8 << 20) as node, counting(disk(node)) as counters:
        os.truncate(image, (4 << 20) + BLOCK_BYTES)
        with pytest.raises(OSError, match="Input/output error"):
            read_directly(node, (4 << 20) + BLOCK_BYTES, 16 * BLOCK_BYTES)
        with contextlib.suppress(OSError), contextlib.suppress(AssertionError):
            read_directly(node, 4 << 20, 16 * BLOCK_BYTES)
        write_directly(node, [0])
        reads = settled(counters, 1).reads
    assert (reads.count, reads.failed, reads.bytes) == (0, 2, BLOCK_BYTES)


def test_latency_is_within_the_time_of_the_calls(tmp_path: Path) -> None:
    with loop_device(tmp_path / "image", 8 << 20) as node, counting(disk(node)) as counters:
        start_ns = time.monotonic_ns()
        write_directly(node, [number * BLOCK_BYTES for number in range(200)])
        elapsed_ns = time.monotonic_ns() - start_ns
        writes = settled(counters, 200).writes
    # they run one after the other, and such a call mostly waits for its request
    assert 0.1 * elapsed_ns < writes.latency_total_ns < elapsed_ns


def test_other_devices_do_not_count_and_the_disk_beneath_does(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        wanted = stack.enter_context(loop_device(tmp_path / "wanted", 8 << 20))
        other = stack.enter_context(loop_device(tmp_path / "other", 8 << 20))
        beneath = bottom_devices(devices_of([str(tmp_path)]))
        if len(beneath) != 1:
            pytest.skip(f"{tmp_path} is not on one disk; set TMPDIR to a folder that is")
        counters = stack.enter_context(counting(disk(wanted), beneath[0]))
        write_directly(other, [0] * 30)
        write_directly(wanted, [number * BLOCK_BYTES for number in range(100)])
        settled(counters, 100)
        own, below = counters.stats()
    assert own.writes.count == 100
    assert below.writes.bytes >= 130 * BLOCK_BYTES


def test_writers_at_once(tmp_path: Path) -> None:
    """Requests of many threads interleave and complete on any CPU."""
    with loop_device(tmp_path / "image", 32 << 20) as node, counting(disk(node)) as counters:
        first = counters.stats()[0]
        parts = [[(part * 250 + at) * BLOCK_BYTES for at in range(250)] for part in range(8)]
        threads = [threading.Thread(target=write_directly, args=(node, part)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = settled(counters, 2000).since(first)
    assert (stats.writes.count, stats.writes.bytes) == (2000, 2000 * BLOCK_BYTES)
    assert stats.writes.untimed == 0


def test_a_file_system_written_back(tmp_path: Path) -> None:
    """Merged requests of the flusher: bytes as the kernel counts them."""
    image = tmp_path / "image"
    with loop_device(image, 64 << 20) as node:
        # else ext4lazyinit zeroes inode tables, which the kernel counts and the probe does not
        made_whole = ["-E", "lazy_itable_init=0,lazy_journal_init=0"]
        subprocess.run(["mkfs.ext4", "-q", *made_whole, str(node)], check=True)
        with mounted(tmp_path / "volume", node) as volume, counting(disk(node)) as counters:
            assert [device.name for device in devices_of([str(volume)])] == [node.name]
            before = kernel_bytes(disk(node))[1]
            (volume / "file").write_bytes(bytes(16 << 20))
            fd = os.open(volume, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
            subprocess.run(["sync", "-f", str(volume)], check=True)
            written_bytes = kernel_bytes(disk(node))[1] - before
            writes = counters.stats()[0].writes
    assert writes.bytes == written_bytes >= 16 << 20
    assert 0 < writes.count < (16 << 20) // BLOCK_BYTES


def test_zeroing_moves_no_data_and_is_not_counted(tmp_path: Path) -> None:
    """The kernel counts REQ_OP_WRITE_ZEROES as bytes written (include/linux/blk_types.h, 6.18)."""
    with loop_device(tmp_path / "image", 8 << 20) as node, counting(disk(node)) as counters:
        before = kernel_bytes(disk(node))[1]
        subprocess.run(["blkdiscard", "--zeroout", "--length", "512KiB", str(node)], check=True)
        write_directly(node, [0])
        writes = settled(counters, 1).writes
        assert kernel_bytes(disk(node))[1] - before == (512 << 10) + BLOCK_BYTES
    assert (writes.count, writes.bytes) == (1, BLOCK_BYTES)


def test_a_loop_device_names_the_disk_beneath(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with loop_device(image, 32 << 20) as node:
        subprocess.run(["mkfs.ext4", "-q", str(node)], check=True)
        with mounted(tmp_path / "volume", node) as volume:
            (own,) = devices_of([str(volume)])
            both = devices_of([str(tmp_path)])
            below = devices_of([str(image)])
    assert own == BlockDevice(node.name, disk(node).number, tuple(d.number for d in below))
    assert set(both) >= {own, *below}
    assert own not in bottom_devices(both)
