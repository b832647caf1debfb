"""BPF maps by their descriptors: sizes, and the entries of hashes, by the system call itself."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

from profiler.bpf.syscall import BPF_SYSCALL_NUMBERS

#: enum bpf_cmd and the flags of BPF_MAP_UPDATE_ELEM, include/uapi/linux/bpf.h.
_UPDATE_ELEM, _DELETE_ELEM, _GET_NEXT_KEY = 2, 3, 4
_NOEXIST = 1
#: union bpf_attr of these commands: map_fd, key, value or next_key, flags.
_ATTRIBUTES = struct.Struct("=I4xQQQ")


def information(descriptor: int) -> dict[str, str]:
    """What the kernel tells of a map or program (kernel/bpf/syscall.c, …_show_fdinfo)."""
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def size_bytes(descriptor: int) -> int:
    """Size of an array's values together."""
    told = information(descriptor)
    return int(told["max_entries"]) * int(told["value_size"])


def insert(descriptor: int, key: bytes, leaf: bytes) -> bool:
    """Add an entry; False when its key is there already. Raises OSError (E2BIG: full)."""
    try:
        _call(_UPDATE_ELEM, descriptor, _buffer(key), _buffer(leaf), _NOEXIST)
    except FileExistsError:
        return False
    return True


def remove(descriptor: int, key: bytes) -> None:
    """Take an entry out; nothing happens when it is not there. Raises OSError."""
    try:
        _call(_DELETE_ELEM, descriptor, _buffer(key), None)
    except FileNotFoundError:
        return


def keys(descriptor: int) -> set[bytes]:
    """All keys; some that come or go meanwhile may be among them. Raises OSError."""
    told = information(descriptor)
    found: set[bytes] = set()
    key: _Buffer | None = None
    after = _buffer(bytes(int(told["key_size"])))
    for _ in range(int(told["max_entries"])):  # ends, though one that goes may start it anew
        try:
            _call(_GET_NEXT_KEY, descriptor, key, after)
        except FileNotFoundError:
            break
        found.add(after.raw)
        key = _buffer(after.raw)
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
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, command, attributes, len(attributes)) != 0:
        reason = ctypes.get_errno()
        raise OSError(reason, os.strerror(reason))
