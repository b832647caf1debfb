# SPDX-License-Identifier: Apache-2.0
"""Write in bursts and print the progress; the tests run this as a program.

    bursts.py FILE CALLS PAUSE_S COUNT…

For each COUNT it makes COUNT x CALLS writes of 10 bytes to FILE, prints the number and sleeps.
"""

from __future__ import annotations

import os
import sys
import time


def main() -> None:
    path, calls, pause_s, *counts = sys.argv[1:]
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for count in map(int, counts):
        for _ in range(count * int(calls)):
            os.write(fd, b"0123456789")
        time.sleep(float(pause_s))
    print(sum(map(int, counts)) * int(calls))


if __name__ == "__main__":
    main()
