# SPDX-License-Identifier: Apache-2.0
"""Waiting until written data is on the device."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable


def sync_file_system(descriptor: int, clock: Callable[[], float] = time.monotonic) -> float:
    """Write back the file system of `descriptor` and return the time in seconds.

    Unlike sync(2), it leaves other file systems alone. Raises OSError, also for a write-back error
    since the descriptor was opened (since Linux 5.8, commit 735e4ae5ba28).
    """
    libc = ctypes.CDLL(None, use_errno=True)  # the os module has no syncfs
    started_s = clock()
    if libc.syncfs(descriptor) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return clock() - started_s
