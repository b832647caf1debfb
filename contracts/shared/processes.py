# SPDX-License-Identifier: Apache-2.0
"""Processes that end with the process that started them."""

from __future__ import annotations

import os
import signal

from contracts.shared import libc

PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


def die_with_parent(parent_pid: int, signal_number: int = signal.SIGKILL) -> None:
    """Make the kernel send `signal_number` to this process when the thread that started it ends.

    `parent_pid` is the parent's pid. If the parent ended before this call, the kernel sends
    nothing, so the process sends the signal to itself. Raises OSError.
    """
    libc.checked_call("prctl", PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal_number)
