# SPDX-License-Identifier: Apache-2.0
"""Write a file at a steady rate, as a pull does; tests and benchmarks run this as a program.

    paced.py FILE MIB MIB_PER_S

The file is opened, then the program waits for a line. It prints as JSON how long it took to return
and the longest write call, both in seconds. A write that waits delays those after it, no more: the
rate is never exceeded.
"""

from __future__ import annotations

import json
import os
import sys
import time

MIB = 2**20


def main() -> None:
    path, count, rate_mib_per_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    data = bytes(MIB)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    sys.stdin.readline()
    began_s = due_s = time.monotonic()
    longest_s = waited_s = 0.0
    for _ in range(count):
        before_s = time.monotonic()
        os.write(descriptor, data)
        now_s = time.monotonic()
        longest_s = max(longest_s, now_s - before_s)
        waited_s += now_s - before_s
        due_s = max(due_s + 1 / rate_mib_per_s, now_s - 0.05)
        time.sleep(max(0.0, due_s - now_s))
    took_s = time.monotonic() - began_s
    print(json.dumps({"return_s": took_s, "longest_s": longest_s, "writing_s": waited_s}))


if __name__ == "__main__":
    main()
