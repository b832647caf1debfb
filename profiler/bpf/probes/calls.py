# SPDX-License-Identifier: Apache-2.0
"""Counts calls on open files by slot: a path, types of calls and a range of sizes.

The layouts are those of `calls.bpf.h`.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from contracts.model import CallType
from contracts.stats import BUCKET_COUNT, CallStats, merge
from profiler.bpf.probe import Probe
from profiler.bpf.probes.scope import SHARED_SOURCES

#: Program → the type that it counts, and the system calls on whose entry it runs.
_PROGRAMS: Mapping[str, tuple[CallType, tuple[str, ...]]] = {
    "enter_read": (CallType.READ, ("read", "pread64", "readv", "preadv", "preadv2")),
    "enter_write": (
        CallType.WRITE,
        ("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile64"),
    ),
    "enter_copy": (CallType.WRITE, ("splice", "copy_file_range")),
    "enter_seek": (CallType.SEEK, ("lseek",)),
    "enter_mmap": (CallType.MMAP, ("mmap",)),
    "enter_glob": (CallType.GLOB, ("getdents", "getdents64")),
    "enter_fsync": (CallType.FSYNC, ("fsync", "fdatasync", "sync_file_range", "syncfs")),
}
#: The types that this probe counts, and their system calls.
SYSTEM_CALLS: Mapping[CallType, tuple[str, ...]] = {
    wanted: tuple(
        name for call_type, names in _PROGRAMS.values() if call_type is wanted for name in names
    )
    for wanted in dict.fromkeys(call_type for call_type, _ in _PROGRAMS.values())
}
#: Requests to Linux AIO cannot be counted; they are reported as losses.
_AIO = "syscalls:sys_enter_io_submit"
_AIO_TYPES = {CallType.READ, CallType.WRITE, CallType.FSYNC}
#: Calls that some architectures lack.
_OPTIONAL = ("getdents",)

#: Slots are bits of a 32-bit word.
SLOTS_MAX = 32
UNBOUNDED_BYTES = 2**64 - 1
#: `struct call_stats`: seven figures, the waits by cause, the histogram.
STATS_FIGURES = 7
CAUSES = 5
STATS_WORDS = STATS_FIGURES + CAUSES + BUCKET_COUNT

SOURCES = (*SHARED_SOURCES, "histogram.bpf.h", "places.bpf.h", "calls.bpf.h")
#: The program that runs on the exit of every call.
LEAVE = "leave_call"
MEMBERS: Mapping[str, tuple[str, ...]] = {
    "OFFSET_TASK_FILES": ("task_struct", "files"),
    "OFFSET_FILES_TABLE": ("files_struct", "fdt"),
    "OFFSET_TABLE_SIZE": ("fdtable", "max_fds"),
    "OFFSET_TABLE_FILES": ("fdtable", "fd"),
    "OFFSET_FILE_INODE": ("file", "f_inode"),
    "OFFSET_FILE_PATH": ("file", "f_path"),
    "OFFSET_FILE_POSITION": ("file", "f_pos"),
    "OFFSET_PATH_DENTRY": ("path", "dentry"),
    "OFFSET_PATH_MOUNT": ("path", "mnt"),
    "OFFSET_INODE_SUPER": ("inode", "i_sb"),
    "OFFSET_INODE_NUMBER": ("inode", "i_ino"),
    "OFFSET_INODE_MODE": ("inode", "i_mode"),
    "OFFSET_SUPER_FLAGS": ("super_block", "s_flags"),
    "OFFSET_SUPER_MAGIC": ("super_block", "s_magic"),
    "OFFSET_SUPER_DEVICE": ("super_block", "s_dev"),
    "OFFSET_DENTRY_PARENT": ("dentry", "d_parent"),
    "OFFSET_DENTRY_INODE": ("dentry", "d_inode"),
    "OFFSET_VFSMOUNT_ROOT": ("vfsmount", "mnt_root"),
    "OFFSET_VFSMOUNT_SUPER": ("vfsmount", "mnt_sb"),
    "OFFSET_MOUNT_VFSMOUNT": ("mount", "mnt"),
    "OFFSET_MOUNT_PARENT": ("mount", "mnt_parent"),
    "OFFSET_MOUNT_POINT": ("mount", "mnt_mountpoint"),
}


def probe_of(call_types: Collection[CallType]) -> Probe:
    """Return the probe that counts calls of these types on open files."""
    programs = {
        program: names for program, (kind, names) in _PROGRAMS.items() if kind in call_types
    }
    functions = {
        program: tuple(f"syscalls:sys_enter_{name}" for name in names)
        for program, names in programs.items()
    }
    if set(call_types) & _AIO_TYPES:
        functions["enter_aio"] = (_AIO,)
    ends = tuple(f"syscalls:sys_exit_{name}" for names in programs.values() for name in names)
    return Probe(
        name="descriptor_calls",
        sources=(*SOURCES, "descriptor_calls.bpf.c"),
        functions={**functions, LEAVE: ends} if functions else {},
        optional=frozenset(
            {
                _AIO,
                *(
                    f"syscalls:sys_{side}_{name}"
                    for side in ("enter", "exit")
                    for name in _OPTIONAL
                ),
            }
        ),
        members=MEMBERS,
        by_functions=True,
    )


#: The probe for all types.
PROBE = probe_of(tuple(SYSTEM_CALLS))


def encode_place(device: int, inode_number: int) -> bytes:
    """Return `struct place`; `device` is the kernel's encoding of MAJOR:MINOR."""
    return struct.pack("=QII", inode_number, device, 0)


def decode_slot(calls: memoryview[int], bank: int, slot: int, cpus: int, slots: int) -> CallStats:
    """Return what one slot counted on all CPUs, from the map `calls` in words of 64 bits.

    It is exact for ended calls; while calls run, a CPU's figures may differ by one call.
    """
    entries = ((bank * cpus + cpu) * slots + slot for cpu in range(cpus))
    return merge([_decode_stats(calls[entry * STATS_WORDS :][:STATS_WORDS]) for entry in entries])


def _decode_stats(words: memoryview[int]) -> CallStats:
    figures, waits_ns = words[:STATS_FIGURES], words[STATS_FIGURES : STATS_FIGURES + CAUSES]
    count, bytes_moved, failed, total_ns, min_ns, max_ns, unbacked_bytes = figures
    buckets = tuple(words[STATS_FIGURES + CAUSES :]) if count else ()
    counted = (count, bytes_moved, failed, total_ns, min_ns, max_ns, buckets, unbacked_bytes)
    return CallStats(*counted, *waits_ns)
