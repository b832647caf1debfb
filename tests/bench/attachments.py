"""Whether probes of other processes are attached: those of sessions that have ended, above all.

The kernel detaches behind a session's back (`profiler.bpf.descriptors.close_attachments`), and
until then what is measured without probes is not.
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
