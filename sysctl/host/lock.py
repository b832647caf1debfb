"""One writer at a time: an flock that the kernel drops with its holder, also after SIGKILL."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import WritewiseError


class LockedError(WritewiseError):
    """Another Writewise is changing this host."""


@contextlib.contextmanager
def exclusive_lock(path: Path, purpose: str) -> Iterator[None]:
    """Hold the lock file while in the block. Raises LockedError naming its holder, at once."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            raise LockedError(
                f"another writewise is at work on this host: {holder or 'unknown'}",
                "wait for it to end, or stop it with SIGTERM: it restores what it changed",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{purpose}, process {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
