# SPDX-License-Identifier: Apache-2.0
"""BPF maps by descriptor: their sizes, and the entries of hashes, through bpf(2)."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

from contracts.shared import libc
from profiler.bpf.syscall import BPF_SYSCALL_NUMBERS

#: enum bpf_cmd and the flags of BPF_MAP_UPDATE_ELEM, include/uapi/linux/bpf.h.
_LOOKUP_ELEM, _UPDATE_ELEM, _DELETE_ELEM, _GET_NEXT_KEY = 1, 2, 3, 4
_NOEXIST = 1
#: union bpf_attr of these commands: map_fd, key, value or next_key, flags.
_ATTRIBUTES = struct.Struct("=I4xQQQ")


def information(descriptor: int) -> dict[str, str]:
    """Return the kernel's data about a map or program (kernel/bpf/syscall.c, …_show_fdinfo)."""
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def size_bytes(descriptor: int) -> int:
    """Return the total size of an array's values."""
    found = information(descriptor)
    return int(found["max_entries"]) * int(found["value_size"])


def insert(descriptor: int, key: bytes, leaf: bytes) -> bool:
    """Add an entry; return False if its key exists. Raises OSError (E2BIG: full)."""
    try:
        _call(_UPDATE_ELEM, descriptor, _buffer(key), _buffer(leaf), _NOEXIST)
    except FileExistsError:
        return False
    return True


def remove(descriptor: int, key: bytes) -> None:
    """Remove an entry, if it exists. Raises OSError."""
    try:
        _call(_DELETE_ELEM, descriptor, _buffer(key), None)
    except FileNotFoundError:
        return


def keys(descriptor: int) -> set[bytes]:
    """Return all keys; those added or removed during the call may be among them. Raises OSError."""
    about = information(descriptor)
    found: set[bytes] = set()
    key: _Buffer | None = None
    after = _buffer(bytes(int(about["key_size"])))
    for _ in range(int(about["max_entries"])):  # bounded: a removed key restarts the walk
        try:
            _call(_GET_NEXT_KEY, descriptor, key, after)
        except FileNotFoundError:
            break
        found.add(after.raw)
        key = _buffer(after.raw)
    return found


def entries(descriptor: int) -> dict[bytes, bytes]:
    """Return a hash's entries; those removed during the call may be missing. Raises OSError."""
    value = _buffer(bytes(int(information(descriptor)["value_size"])))
    found: dict[bytes, bytes] = {}
    for key in keys(descriptor):
        try:
            _call(_LOOKUP_ELEM, descriptor, _buffer(key), value)
        except FileNotFoundError:
            continue
        found[key] = value.raw
    return found


_Buffer = ctypes.Array[ctypes.c_char]


def _buffer(content: bytes) -> _Buffer:
    return ctypes.create_string_buffer(content, len(content))


def _call(
    command: int, descriptor: int, key: _Buffer | None, value: _Buffer | None, flags: int = 0
) -> None:
    number = BPF_SYSCALL_NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    addresses = (0 if buffer is None else ctypes.addressof(buffer) for buffer in (key, value))
    attributes = _ATTRIBUTES.pack(descriptor, *addresses, flags)
    libc.checked_call("syscall", number, command, attributes, len(attributes))
