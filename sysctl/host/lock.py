"""One writer at a time: an flock that the kernel drops with its holder, also after SIGKILL.

The holder's commands (mount, mkfs) inherit it. After SIGKILL it is free only when the last of them
has ended, so that nothing which they still do can escape the restore.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from contracts.shared.errors import WritewiseError
from sysctl.host.system import COMMAND_TIMEOUT_S, System, host_errors

_POLL_S = 0.05
#: A process that was sent SIGKILL runs for a moment until it sees it.
_GRACE_S = 0.3


class LockedError(WritewiseError):
    """Another Writewise is changing this host."""


@contextlib.contextmanager
def exclusive_lock(path: Path, purpose: str, system: System | None = None) -> Iterator[None]:
    """Hold the lock file while in the block.

    Raises LockedError naming the holder after a moment, in which one that was just killed ends;
    while the holder is dead and a command of it still runs, waits for that. Raises HostError when
    the file cannot be used.
    """
    with host_errors(f"use {path}"):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
    try:
        _take(descriptor, system or System())
        os.set_inheritable(descriptor, True)
        with contextlib.suppress(OSError):  # a full disk: the name is a courtesy
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{purpose}, process {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder_of(path: Path) -> str | None:
    """Return who holds the lock, in words; None if nobody does. Raises HostError."""
    with host_errors(f"use {path}"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(descriptor)


def _take(descriptor: int, system: System) -> None:
    for poll in range(round(COMMAND_TIMEOUT_S / _POLL_S)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            if poll * _POLL_S >= _GRACE_S and _is_alive(holder, system):
                break
        system.sleep(_POLL_S)
    raise LockedError(
        f"another writewise is at work on this host: {holder or 'unknown'}",
        "wait for it to end, or stop it with SIGTERM: it restores what it changed",
    )


def _is_alive(holder: str, system: System) -> bool:
    """Whether the process that `holder` names runs; one that has not signed yet soon will."""
    found = re.search(r"process (\d+)$", holder)
    return found is not None and system.is_running(int(found[1]))
