# SPDX-License-Identifier: Apache-2.0
"""Counts calls that name a path, or an open file, without moving its bytes.

The layouts are those of `path_calls.bpf.c`. Mistral's public sources do not say which system calls
count as `open`, `create`, `delete`, `fschange` and `access`; the choice here follows from the
words. A call has one type: opening a file with O_CREAT is `create` and not `open`, whether or not
the file existed.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from contracts.model import CallType
from profiler.bpf.probe import Probe
from profiler.bpf.probes.calls import MEMBERS, SOURCES
from profiler.bpf.starts import NAMES_MAX_BYTES

_OPENS = (CallType.OPEN, CallType.CREATE)
_CREATE, _DELETE = (CallType.CREATE,), (CallType.DELETE,)
_FSCHANGE, _ACCESS = (CallType.FSCHANGE,), (CallType.ACCESS,)

#: Program → the types that it counts, and the system calls on whose entry it runs.
_PROGRAMS: Mapping[str, tuple[tuple[CallType, ...], tuple[str, ...]]] = {
    "enter_open": (_OPENS, ("open",)),
    "enter_openat": (_OPENS, ("openat",)),
    "enter_openat2": (_OPENS, ("openat2",)),
    "enter_open_by_handle": ((CallType.OPEN,), ("open_by_handle_at",)),
    "enter_creat": (_CREATE, ("creat",)),
    "enter_create_path": (_CREATE, ("mkdir", "mknod")),
    "enter_create_at": (_CREATE, ("mkdirat", "mknodat")),
    "enter_symlink": (_CREATE, ("symlink",)),
    "enter_symlinkat": (_CREATE, ("symlinkat",)),
    "enter_link": (_CREATE, ("link",)),
    "enter_linkat": (_CREATE, ("linkat",)),
    "enter_delete_path": (_DELETE, ("unlink", "rmdir")),
    "enter_delete_at": (_DELETE, ("unlinkat",)),
    "enter_rename": (_FSCHANGE, ("rename",)),
    "enter_renameat": (_FSCHANGE, ("renameat", "renameat2")),
    "enter_fschange_path": (
        _FSCHANGE,
        (
            *("chmod", "chown", "lchown", "truncate", "utime", "utimes"),
            *("setxattr", "lsetxattr", "removexattr", "lremovexattr"),
        ),
    ),
    "enter_fschange_at": (
        _FSCHANGE,
        (
            *("fchmodat", "fchmodat2", "fchownat", "futimesat", "utimensat"),
            *("setxattrat", "removexattrat", "file_setattr"),
        ),
    ),
    "enter_fschange_file": (
        _FSCHANGE,
        ("fchmod", "fchown", "ftruncate", "fallocate", "fsetxattr", "fremovexattr"),
    ),
    "enter_access_path": (
        _ACCESS,
        (
            *("access", "newstat", "newlstat", "statfs", "readlink"),
            *("getxattr", "lgetxattr", "listxattr", "llistxattr"),
        ),
    ),
    "enter_access_at": (
        _ACCESS,
        (
            *("faccessat", "faccessat2", "newfstatat", "statx", "readlinkat"),
            *("name_to_handle_at", "getxattrat", "listxattrat", "file_getattr"),
        ),
    ),
    "enter_access_file": (_ACCESS, ("newfstat", "fstatfs", "fgetxattr", "flistxattr")),
}
#: The types that this probe counts, and their system calls.
SYSTEM_CALLS: Mapping[CallType, tuple[str, ...]] = {
    wanted: tuple(name for kinds, names in _PROGRAMS.values() if wanted in kinds for name in names)
    for wanted in (*_OPENS, *_DELETE, *_FSCHANGE, *_ACCESS)
}
#: Calls that a kernel may lack. Newer architectures only have the `…at` forms of the first ones;
#: the last came with Linux 6.6 (fchmodat2), 6.13 (…xattrat) and 6.17 (file_…attr).
_OPTIONAL = (
    *("open", "creat", "mkdir", "mknod", "symlink", "link", "unlink", "rmdir", "rename"),
    *("chmod", "chown", "lchown", "utime", "utimes", "futimesat"),
    *("access", "newstat", "newlstat", "readlink", "renameat"),
    *("fchmodat2", "setxattrat", "removexattrat", "getxattrat", "listxattrat"),
    *("file_getattr", "file_setattr", "name_to_handle_at", "open_by_handle_at"),
)
#: The program that runs on the exit of every such call.
LEAVE = "leave_path_call"


def probe_of(call_types: Collection[CallType]) -> Probe:
    """Return the probe that counts calls of these types that name a path.

    It needs the macros START_COUNT and ROUTE_COUNT, the sizes of the maps `starts` and `routes`.
    """
    programs = {
        program: names
        for program, (kinds, names) in _PROGRAMS.items()
        if not set(kinds).isdisjoint(call_types)
    }
    begins = {program: _tracepoints("enter", names) for program, names in programs.items()}
    ends = tuple(name for names in programs.values() for name in _tracepoints("exit", names))
    return Probe(
        name="path_calls",
        sources=(*SOURCES, "path_calls.bpf.c"),
        functions={**begins, LEAVE: ends} if begins else {},
        optional=frozenset((*_tracepoints("enter", _OPTIONAL), *_tracepoints("exit", _OPTIONAL))),
        members={
            **MEMBERS,
            "OFFSET_TASK_FS": ("task_struct", "fs"),
            "OFFSET_FS_PWD": ("fs_struct", "pwd"),
            "OFFSET_FS_ROOT": ("fs_struct", "root"),
        },
    )


def _tracepoints(side: str, names: Collection[str]) -> tuple[str, ...]:
    return tuple(f"syscalls:sys_{side}_{name}" for name in names)


#: The probe for all types.
PROBE = probe_of(tuple(SYSTEM_CALLS))


def encode_route(start: int, names: bytes) -> bytes:
    """Return `struct route`, a key of the map `routes`; `start` is a value of the map `starts`."""
    bits = 8 * (4 + len(names))  # the length of what follows
    return struct.pack(f"=II{NAMES_MAX_BYTES}s", bits, start, names)
