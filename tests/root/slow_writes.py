# SPDX-License-Identifier: Apache-2.0
"""Write so that the writes wait for one cause only; the tests run this as a program.

    slow_writes.py burst FILE MIB       one thread, in calls of 256 KiB
    slow_writes.py dsync FILE CALLS     one thread, 4 KiB at a time, each on the device on return
    slow_writes.py fight FILE MIB       two threads in one file, half of it each
    slow_writes.py apart FILE MIB       two threads in a file each

It prints JSON: the seconds from the first call to the return of the last, the time that its
threads spent in the calls, and their CPU time (user mode included).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

MIB = 2**20
CALL_BYTES = 256 * 1024


class Writer(threading.Thread):
    def __init__(self, path: str, first_byte: int, calls: int, size_bytes: int, flags: int) -> None:
        super().__init__()
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
        self.first_byte, self.calls, self.block = first_byte, calls, bytes(size_bytes)
        self.in_calls_s = self.on_cpu_s = 0.0

    def run(self) -> None:
        at = self.first_byte
        for _ in range(self.calls):
            before_s = time.monotonic()
            assert os.pwrite(self.descriptor, self.block, at) == len(self.block)
            self.in_calls_s += time.monotonic() - before_s
            at += len(self.block)
        self.on_cpu_s = time.thread_time()


def writers(mode: str, path: str, amount: int) -> list[Writer]:
    calls = amount * MIB // CALL_BYTES
    if mode == "dsync":
        return [Writer(path, 0, amount, 4096, os.O_DSYNC)]
    if mode == "burst":
        return [Writer(path, 0, calls, CALL_BYTES, 0)]
    half = calls // 2
    second = path if mode == "fight" else path + ".2"
    first_byte = half * CALL_BYTES if mode == "fight" else 0
    return [
        Writer(path, 0, half, CALL_BYTES, 0),
        Writer(second, first_byte, half, CALL_BYTES, 0),
    ]


def main() -> None:
    mode, path, amount = sys.argv[1], sys.argv[2], int(sys.argv[3])
    threads = writers(mode, path, amount)
    start_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = {
        "elapsed_s": time.monotonic() - start_s,
        "in_calls_s": sum(thread.in_calls_s for thread in threads),
        "on_cpu_s": sum(thread.on_cpu_s for thread in threads),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
