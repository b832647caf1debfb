# SPDX-License-Identifier: Apache-2.0
"""Waiting until written data is on the device."""

from __future__ import annotations

import time
from collections.abc import Callable

from contracts.shared import libc


def sync_file_system(descriptor: int, clock: Callable[[], float] = time.monotonic) -> float:
    """Write back the file system of `descriptor` and return the time in seconds.

    Unlike sync(2), it leaves other file systems alone. Raises OSError, also for a write-back error
    since the descriptor was opened (since Linux 5.8, commit 735e4ae5ba28).
    """
    started_s = clock()
    libc.checked_call("syncfs", descriptor)
    return clock() - started_s
