# SPDX-License-Identifier: Apache-2.0
"""Compiles, loads and attaches probes, and passes their descriptors to the caller.

`loader.py` runs it as a program. It is the only importer of bcc, whose compiler takes 110 MB that
its process never returns, and which a host with too little memory may kill. It needs the standard
library and bcc, and runs isolated (`python -I compiler.py DESCRIPTOR`), so that it imports no
modules of the user's.

The descriptor is a message socket (SOCK_SEQPACKET) for JSON objects. It receives one request, and
sends descriptors by name (`give`) and then `done`, or `failed`, which detaches everything. Output
of the compiler and of the kernel's verifier goes to stderr.

It mounts tracefs, unless it is mounted, and a short list of symbols, in a mount namespace that ends
with this process. So no other process sees these mounts, and none is left, however the process
ends. It unmounts the namespace's copies of other mounts at once: otherwise a volume that another
process unmounts would stay busy until this process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import select
import socket
import struct
import sys
import tempfile
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HEADERS_FOLDER = Path(__file__).parent / "headers"
TRACEFS = Path("/sys/kernel/tracing")
#: BCC uses the first of these that exists (bcc 0.26, src/cc/common.cc, tracefs_path).
TRACEFS_OF_BCC = (Path("/sys/kernel/debug/tracing"), TRACEFS)

REQUEST_BYTES = 1 << 16
#: The kernel accepts 253 at a time (include/net/scm.h, SCM_MAX_FD).
DESCRIPTORS_PER_MESSAGE = 200

_CLONE_NEWNS = 0x20000  # include/uapi/linux/sched.h
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8  # include/uapi/linux/mount.h
_MS_BIND, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8  # include/linux/fs.h
#: include/uapi/linux/bpf.h: commands and program type; the numbers of fentry and fexit are in
#: `functions.py`, which asks for them on x86_64 only (arch/x86/entry/syscalls/syscall_64.tbl).
_PROG_LOAD, _RAW_TRACEPOINT_OPEN, _TRACING, _BPF_X86_64 = 5, 17, 26, 321
_CALL = 0x85
#: Errors that a program on a tracepoint would meet as well.
_OF_ANY_PROGRAM = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)
#: Mounts at and below these stay in a new namespace; volumes are not mounted there.
_SYSTEM_TREES = ("/dev", "/etc", "/proc", "/sys")


class FailureError(Exception):
    """A failure: a kind that `loader.py` has a message for, and what it concerns."""

    def __init__(self, kind: str, about: str) -> None:
        super().__init__(kind, about)
        self.kind, self.about = kind, about


def bcc_class() -> Any:
    """Return BCC's class of modules, set up to use our headers in place of the kernel's."""
    os.environ["BCC_KERNEL_SOURCE"] = str(HEADERS_FOLDER)
    try:
        from bcc import BPF
    except (ImportError, OSError) as error:
        raise FailureError("bcc", str(error)) from None
    return BPF


def with_casts(bcc: Any, cast: Any) -> Any:
    """Return BCC's class with one call replaced by another, each a kind and a number.

    BCC cannot express the call of a kernel function, so the C calls a helper that does not exist.
    The compiled code may be written to, since BCC itself inserts the descriptors of maps.
    """
    if not cast:
        return bcc
    from bcc import libbcc

    placeholder, function = (struct.pack("=BBhi", _CALL, kind, 0, number) for kind, number in cast)

    class Casting(bcc):  # type: ignore[misc]
        """BCC's class; it loads some programs already when it is constructed."""

        def dump_func(self, func_name: bytes) -> bytes:
            code = super().dump_func(func_name)
            each = (code[at : at + 8] for at in range(0, len(code), 8))
            return b"".join(function if one == placeholder else one for one in each)

        def load_func(self, func_name: bytes, *others: Any, **named: Any) -> Any:
            code = self.dump_func(func_name)
            start = libbcc.lib.bpf_function_start(self.module, func_name)
            ctypes.memmove(start, code, len(code))
            return super().load_func(func_name, *others, **named)

    return Casting


def load_traced(code: bytes, function: int, attach_type: int) -> int:
    """Load a program for the entry or exit of a kernel function with this BTF id.

    Return its descriptor. BCC 0.26 would parse all of the kernel's BTF for each. Raises OSError.
    """
    instructions, gpl = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    # union bpf_attr of BPF_PROG_LOAD, include/uapi/linux/bpf.h
    pointers = (ctypes.addressof(instructions), ctypes.addressof(gpl))
    head = struct.pack("=IIQQ", _TRACING, len(code) // 8, *pointers)
    return _bpf(_PROG_LOAD, head.ljust(68, b"\0") + struct.pack("=I36xI", attach_type, function))


def attach_traced(program: int) -> int:
    """Attach it; return a descriptor that detaches it when it is closed. Raises OSError."""
    return _bpf(_RAW_TRACEPOINT_OPEN, struct.pack("=QI4x", 0, program))


def _bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(_BPF_X86_64, command, attributes, len(attributes))
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(descriptor)


def warm_up(bcc: Any, connection: socket.socket) -> None:
    """Compile a trivial program while idle, because the first compilation takes 30 ms longer."""
    if not select.select([connection], [], [], 0)[0]:
        bcc(text=b"int unused(void *context) { return 0; }", cflags=["-w"])


def compile_and_attach(bcc: Any, request: Mapping[str, Any]) -> Any:
    """Return a BCC module that is attached to exactly the requested tracepoints.

    Programs of `traced` tracepoints attach to the kernel functions behind them instead.
    """
    functions = functions_here(request)
    text = "\n".join(Path(file).read_text(encoding="utf-8") for file in request["files"])
    try:
        bpf = with_casts(bcc, request["cast"])(text=text.encode(), cflags=request["cflags"])
        for function, names in functions.items():
            for name in names:
                attach(bpf, function.encode(), name, request["traced"].get(name))
    except FailureError:
        raise
    except Exception as error:  # BCC has no more precise class
        raise FailureError("load", str(error)) from None
    wanted = {*request["tracepoints"], *request["raw_tracepoints"]}
    wanted.update(name for names in functions.values() for name in names)
    missed = {name.decode() for name in (*bpf.tracepoint_fds, *bpf.raw_tracepoint_fds)} ^ wanted
    if missed:
        raise FailureError("attach", ", ".join(sorted(missed)))
    return bpf


def attach(bpf: Any, function: bytes, name: str, traced: Any) -> None:
    """Attach a program to a tracepoint, or to the entry or exit of the function behind it.

    Raises FailureError `function` if the kernel takes no such program there.
    """
    if traced is None:
        bpf.attach_tracepoint(tp=name.encode(), fn_name=function)
        return
    code = bpf.dump_func(function)
    try:
        program = load_traced(code, *traced)
        bpf.funcs[name.encode()] = types.SimpleNamespace(fd=program)  # one for each tracepoint
        bpf.tracepoint_fds[name.encode()] = attach_traced(program)
    except OSError as error:
        if error.errno in _OF_ANY_PROGRAM:
            raise
        raise FailureError("function", f"{name}: {error.strerror}") from None


def keep_mounts_to_itself(needed: Iterable[str]) -> None:
    """Move this process to a new mount namespace, which ends with it and its children.

    It keeps only the mounts of the `needed` paths and of `_SYSTEM_TREES`. Raises OSError: EPERM in
    a container that forbids it, EINVAL if the root is not a mount point (chroot).
    """
    paths = {os.path.realpath(path) for path in needed}
    system_call("unshare", _CLONE_NEWNS)
    system_call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    while sum(_is_detached(target) for target in reversed(_not_needed(paths))):
        pass  # again, for the mounts that these covered


def _not_needed(paths: Iterable[str]) -> list[str]:
    """Return the mount points that no path needs, in the order of the mount table."""
    table = Path("/proc/self/mountinfo").read_bytes()
    escaped = (line.split()[4] for line in table.splitlines())
    targets = [os.fsdecode(re.sub(rb"\\([0-7]{3})", _unescaped, each)) for each in escaped]
    return [
        target
        for target in targets
        if not any(_is_below(path, target) for path in paths)
        and not any(_is_below(target, tree) for tree in _SYSTEM_TREES)
    ]


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 8)])


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_detached(target: str) -> bool:
    """Unmount it from the namespace, and return False if another mount covers it."""
    try:
        system_call("umount2", os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    except OSError:
        return False
    return True


def part_from_mounts_of_others() -> FailureError | None:
    """Hide later mounts from other processes; return why that failed, or None."""
    needed = (sys.prefix, sys.base_prefix, *sys.path, str(HEADERS_FOLDER), tempfile.gettempdir())
    try:
        keep_mounts_to_itself(needed)
    except OSError as error:
        return FailureError("tracefs", str(error.strerror))
    return None


def shorten_kallsyms() -> None:
    """Mount a short list over /proc/kallsyms, in which BCC looks up two symbols (0.1 s of 0.4 s).

    Every kernel since 5.5 has the two (bcc 0.26, src/cc/frontends/clang/b_frontend_action.cc,
    check_bpf_probe_read_kernel). If the mount fails, it only takes longer.
    """
    short = os.fsencode(HEADERS_FOLDER / "kallsyms")
    with contextlib.suppress(OSError):
        system_call("mount", short, b"/proc/kallsyms", None, _MS_BIND, None)


def see_tracefs(failure: FailureError | None) -> None:
    """Mount tracefs unless it is mounted; `failure` is why other processes would see the mount.

    Even the check must be hidden: looking into debugfs makes the kernel mount tracefs there.
    """
    if any((path / "events").is_dir() for path in TRACEFS_OF_BCC):
        return
    if failure is not None:
        raise failure
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    try:
        system_call("mount", b"tracefs", os.fsencode(TRACEFS), b"tracefs", flags, None)
    except OSError as error:
        raise FailureError("tracefs", str(error.strerror)) from None


def system_call(name: str, *arguments: object) -> None:
    """Call the C library's function `name`, which returns 0 or sets errno.

    Raises OSError, whose text names the function.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}(): {os.strerror(error)}")


def functions_here(request: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the tracepoints that this kernel has, for each program that serves several.

    Raises FailureError for a missing tracepoint that is not optional.
    """
    events = next(path / "events" for path in TRACEFS_OF_BCC if (path / "events").is_dir())

    def is_there(name: str) -> bool:
        if events.joinpath(*name.split(":")).is_dir():
            return True
        if name in request["optional"]:
            return False
        raise FailureError("tracepoint", name)

    for alone in request["tracepoints"]:
        is_there(alone)
    return {
        function: [name for name in names if is_there(name)]
        for function, names in request["functions"].items()
    }


def maps_of(bpf: Any) -> dict[str, int]:
    """Return the descriptors of all maps by name; BCC's Python binding has no function for it."""
    from bcc import libbcc

    count, name_of, descriptor_of = (
        getattr(libbcc.lib, name)
        for name in ("bpf_num_tables", "bpf_table_name", "bpf_table_fd_id")
    )
    count.restype, count.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_size_t]
    descriptor_of.restype, descriptor_of.argtypes = ctypes.c_int, name_of.argtypes
    tables = range(count(bpf.module))
    return {name_of(bpf.module, at).decode(): descriptor_of(bpf.module, at) for at in tables}


def give(connection: socket.socket, kind: str, descriptors: Mapping[str, int]) -> None:
    """Send descriptors with their names, in as many messages as needed."""
    names = list(descriptors)
    for start in range(0, len(names), DESCRIPTORS_PER_MESSAGE):
        part = names[start : start + DESCRIPTORS_PER_MESSAGE]
        message = json.dumps({"kind": kind, "names": part}).encode()
        socket.send_fds(connection, [message], [descriptors[name] for name in part])


def by_text(descriptors: Mapping[bytes, Any]) -> dict[str, Any]:
    """Return the descriptors with their names as text; BCC's are bytes."""
    return {name.decode(): descriptor for name, descriptor in descriptors.items()}


def serve(connection: socket.socket) -> Any:
    """Receive the request and return its BCC module."""
    try:
        bcc = bcc_class()  # while the caller prepares the request
        failure = part_from_mounts_of_others()
        see_tracefs(failure)
        if failure is None:
            shorten_kallsyms()
        warm_up(bcc, connection)
    finally:
        request = connection.recv(REQUEST_BYTES)  # unread, it would reset the connection
    return compile_and_attach(bcc, json.loads(request))


def main() -> None:
    """Serve one request."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        bpf = serve(connection)
    except FailureError as failure:
        answer = {"kind": "failed", "failure": failure.kind, "about": failure.about}
        connection.send(json.dumps(answer).encode())
        return
    give(connection, "map", maps_of(bpf))
    give(connection, "program", {name: each.fd for name, each in by_text(bpf.funcs).items()})
    give(connection, "event", by_text(bpf.tracepoint_fds))
    give(connection, "event", by_text(bpf.raw_tracepoint_fds))
    connection.send(b'{"kind": "done"}')
    os._exit(0)  # without BCC's clean-up, which is not needed


if __name__ == "__main__":
    main()
