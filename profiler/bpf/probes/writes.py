"""Calls of write, pwrite64, writev, pwritev and pwritev2, counted by path and size.

The layouts are those of `writes.bpf.c`.
"""

from __future__ import annotations

import struct

from contracts.stats import BUCKET_COUNT, CallStats, merge
from profiler.bpf.probe import Probe
from profiler.bpf.probes.scope import SHARED_SOURCE

CALLS = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
#: Slots are bits of a 32-bit word.
SLOTS_MAX = 32
UNBOUNDED_BYTES = 2**64 - 1
#: `struct call_stats`: six figures, then the histogram.
STATS_FIGURES = 6
STATS_WORDS = STATS_FIGURES + BUCKET_COUNT

PROBE = Probe(
    name="writes",
    sources=(SHARED_SOURCE, "writes.bpf.c"),
    tracepoints=tuple(f"syscalls:sys_{way}_{call}" for call in CALLS for way in ("enter", "exit")),
    members={
        "OFFSET_TASK_FILES": ("task_struct", "files"),
        "OFFSET_FILES_TABLE": ("files_struct", "fdt"),
        "OFFSET_TABLE_SIZE": ("fdtable", "max_fds"),
        "OFFSET_TABLE_FILES": ("fdtable", "fd"),
        "OFFSET_FILE_INODE": ("file", "f_inode"),
        "OFFSET_FILE_DENTRY": ("file", "f_path", "dentry"),
        "OFFSET_FILE_MOUNT": ("file", "f_path", "mnt"),
        "OFFSET_INODE_SUPER": ("inode", "i_sb"),
        "OFFSET_INODE_NUMBER": ("inode", "i_ino"),
        "OFFSET_SUPER_FLAGS": ("super_block", "s_flags"),
        "OFFSET_SUPER_DEVICE": ("super_block", "s_dev"),
        "OFFSET_DENTRY_PARENT": ("dentry", "d_parent"),
        "OFFSET_DENTRY_INODE": ("dentry", "d_inode"),
        "OFFSET_VFSMOUNT_ROOT": ("vfsmount", "mnt_root"),
        "OFFSET_VFSMOUNT_SUPER": ("vfsmount", "mnt_sb"),
        "OFFSET_MOUNT_VFSMOUNT": ("mount", "mnt"),
        "OFFSET_MOUNT_PARENT": ("mount", "mnt_parent"),
        "OFFSET_MOUNT_POINT": ("mount", "mnt_mountpoint"),
    },
)


def encode_place(device: int, inode_number: int) -> bytes:
    """`struct place`; `device` is the kernel's own encoding of MAJOR:MINOR."""
    return struct.pack("=QII", inode_number, device, 0)


def decode_slot(writes: memoryview[int], bank: int, slot: int, cpus: int, slots: int) -> CallStats:
    """What one slot counted on all CPUs, from the map `writes` in words of 64 bits.

    Exact once the calls have ended; while they run, one CPU's figures may be a call apart.
    """
    entries = ((bank * cpus + cpu) * slots + slot for cpu in range(cpus))
    return merge([_decode_stats(writes[entry * STATS_WORDS :][:STATS_WORDS]) for entry in entries])


def _decode_stats(words: memoryview[int]) -> CallStats:
    count, bytes_moved, failed, total_ns, min_ns, max_ns = words[:STATS_FIGURES]
    buckets = tuple(words[STATS_FIGURES:]) if count else ()
    return CallStats(count, bytes_moved, failed, total_ns, min_ns, max_ns, buckets)
