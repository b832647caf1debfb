# SPDX-License-Identifier: Apache-2.0
"""The lock of writers: an flock that the kernel releases when its holder ends, even by SIGKILL.

The holder's commands (mount, mkfs) inherit it. After SIGKILL it is released only when the last of
them has ended, so the restore covers everything that they do.
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
#: A process runs for a moment after SIGKILL was sent.
_GRACE_S = 0.3
#: The most that is written, and read, of who holds a lock.
_HOLDER_BYTES = 400


class LockedError(WritewiseError):
    """Another Writewise is changing this host."""


@contextlib.contextmanager
def exclusive_lock(
    path: Path, purpose: str, system: System | None = None, *, patient_with: str | None = None
) -> Iterator[None]:
    """Hold the lock file during the block.

    Raises LockedError with the holder after a short wait, in which a holder that was just killed
    can end. If the holder is dead and one of its commands still runs, waits for that, and also for
    a holder whose purpose begins with `patient_with`. Raises HostError if the file cannot be used.
    """
    with host_errors(f"use {path}"):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
    try:
        _take(descriptor, system or System(), patient_with)
        os.set_inheritable(descriptor, True)
        _write_holder(descriptor, purpose)
        yield
    finally:
        os.close(descriptor)


def shared_lock(path: Path, purpose: str, system: System) -> int | None:
    """Take the lock file together with others; return a descriptor to close, None if it is taken.

    It keeps nobody away who does not ask for it: an upgrade of the package waits for it. A program
    that is started does not inherit it, a forked process does. Raises HostError.
    """
    with host_errors(f"use {path}"):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
    for _ in range(round(_GRACE_S / _POLL_S)):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            _write_holder(descriptor, purpose)
            return descriptor
        system.sleep(_POLL_S)
    os.close(descriptor)
    return None


def _write_holder(descriptor: int, purpose: str) -> None:
    """Write who holds it. A long purpose is cut, so that a reader gets the process, too."""
    process = f", process {os.getpid()}\n".encode()
    kept = purpose.encode(errors="replace")[: _HOLDER_BYTES - len(process)]
    with contextlib.suppress(OSError):  # a full disk: without the text others only wait longer
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, kept.decode(errors="ignore").encode() + process, 0)


def _read_holder(descriptor: int) -> str:
    return os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").strip()


def holder_of(path: Path) -> str | None:
    """Return the holder of the lock, in words; None if it is free. Raises HostError."""
    with host_errors(f"use {path}"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read_holder(descriptor) or "unknown"
    finally:
        os.close(descriptor)


def _take(descriptor: int, system: System, patient_with: str | None) -> None:
    for poll in range(round(COMMAND_TIMEOUT_S / _POLL_S)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _read_holder(descriptor)
            is_awaited = patient_with is not None and holder.startswith(patient_with)
            if poll * _POLL_S >= _GRACE_S and not is_awaited and _is_alive(holder, system):
                break
        system.sleep(_POLL_S)
    raise LockedError(
        f"another writewise is running on this host: {holder or 'unknown'}",
        "wait until it ends, or stop it with SIGTERM: it restores what it changed",
    )


def _is_alive(holder: str, system: System) -> bool:
    """Return whether the process in the holder's text is running."""
    found = re.search(r"process (\d+)$", holder)
    return found is not None and system.is_running(int(found[1]))
