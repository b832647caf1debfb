# SPDX-License-Identifier: Apache-2.0
"""Wait until no other process has probes attached, in particular sessions that have ended.

The kernel detaches after a session's end (`profiler.bpf.descriptors.close_attachments`). A
measurement before that is not one without probes.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

TIMEOUT_S = 20
POLL_S = 0.05


def wait_until_detached() -> None:
    """Return once no other process holds an attachment, or after TIMEOUT_S, with a warning."""
    deadline = time.monotonic() + TIMEOUT_S
    while holders := _holders():
        if time.monotonic() > deadline:
            print(f"(other probes are at work on this host, of processes {holders})")
            return
        time.sleep(POLL_S)


def _holders() -> list[int]:
    own = os.getpid()
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in pids if pid != own and _holds_an_attachment(pid)]


def _holds_an_attachment(pid: int) -> bool:
    with contextlib.suppress(OSError):  # it has ended
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(path) == "anon_inode:[perf_event]":
                    return True
    return False
