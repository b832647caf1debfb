# SPDX-License-Identifier: Apache-2.0
"""Make a known number of calls of each of the five kinds; the tests run this as a program.

    writer.py PLAN DIRECTORY ROUNDS SIZE

Each working thread opens its own file in DIRECTORY and makes 5 x ROUNDS calls of SIZE bytes. Plans:
`threads` (4 in one process; prints what /proc/self/io reports), `hammer` (32), `tree` (14 threads
in 4 processes), and `gated` (8 in two, which work once a line is read); see these functions. Calls
are made by number, so that the C library does not choose another kind.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
import threading

NUMBERS = {
    "x86_64": {"write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "pwritev2": 328},
    "aarch64": {"write": 64, "pwrite64": 68, "writev": 66, "pwritev": 70, "pwritev2": 287},
}[platform.machine()]
THREADS_OF_PLAN = {"threads": 4, "hammer": 32, "tree": 14, "gated": 8}
_libc = ctypes.CDLL(None, use_errno=True)


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def call(kind: str, fd: int, address: int, size_bytes: int) -> int:
    """Make one call, of two equal vectors if it takes vectors; return its result or -errno."""
    if kind in ("write", "pwrite64"):
        arguments: list[object] = [ctypes.c_void_p(address), ctypes.c_size_t(size_bytes)]
    else:
        half = size_bytes // 2
        vectors = (_Iovec * 2)(_Iovec(address, half), _Iovec(address, size_bytes - half))
        arguments = [vectors, ctypes.c_size_t(2)]
    if kind.startswith("pwrite"):
        arguments += [ctypes.c_long(0)]
    if kind.startswith("pwritev"):
        arguments += [ctypes.c_long(0), ctypes.c_int(0)]
    returned = _libc.syscall(ctypes.c_long(NUMBERS[kind]), ctypes.c_long(fd), *arguments)
    return returned if returned >= 0 else -ctypes.get_errno()


def work(directory: str, rounds: int, size_bytes: int) -> None:
    path = os.path.join(directory, f"{os.getpid()}-{threading.get_native_id()}")
    buffer = ctypes.create_string_buffer(size_bytes)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(rounds):
        for kind in NUMBERS:
            assert call(kind, fd, ctypes.addressof(buffer), size_bytes) == size_bytes
    os.close(fd)


def in_threads(count: int, directory: str, rounds: int, size_bytes: int) -> None:
    """Run `work` in threads that all exist before the first one makes a call."""
    all_exist = threading.Barrier(count)

    def wait_and_work() -> None:
        all_exist.wait()
        work(directory, rounds, size_bytes)

    workers = [threading.Thread(target=wait_and_work) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def tree(directory: str, rounds: int, size_bytes: int) -> None:
    """Run four threads, a child with two whose child has four, then a thread that execs."""
    in_threads(4, directory, rounds, size_bytes)
    child = os.fork()
    if child == 0:
        in_threads(2, directory, rounds, size_bytes)
        arguments = [__file__, "threads", directory, str(rounds), str(size_bytes)]
        os._exit(os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-BS", *arguments]))
    assert os.waitpid(child, 0)[1] == 0

    def become_another() -> None:
        arguments = [__file__, "threads", directory, str(rounds), str(size_bytes)]
        os.execv(sys.executable, [sys.executable, "-BS", *arguments])

    threading.Thread(target=become_another).start()
    threading.Event().wait()  # the exec ends this thread


def gated(directory: str, rounds: int, size_bytes: int) -> None:
    """Start the threads of parent and child before the line arrives that lets them work."""
    gate, opener = os.pipe()

    def wait_and_work() -> None:
        os.read(gate, 1)
        work(directory, rounds, size_bytes)

    child = os.fork()
    workers = [threading.Thread(target=wait_and_work) for _ in range(4)]
    for worker in workers:
        worker.start()
    if child:
        print("ready", flush=True)
        sys.stdin.readline()
    os.close(opener)  # once the parent's copy is closed, both are, and every read ends
    for worker in workers:
        worker.join()
    if child:
        os.waitpid(child, 0)


def own_io() -> dict[str, int]:
    with open("/proc/self/io") as file:
        return {name: int(value) for name, value in (line.split(":") for line in file)}


def main() -> None:
    plan, directory, rounds, size_bytes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    if plan in ("tree", "gated"):
        {"tree": tree, "gated": gated}[plan](directory, rounds, size_bytes)
        return
    before = own_io()
    in_threads(THREADS_OF_PLAN[plan], directory, rounds, size_bytes)
    after = own_io()
    print(json.dumps({name: after[name] - before[name] for name in ("wchar", "syscw")}))


if __name__ == "__main__":
    main()
