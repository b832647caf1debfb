# SPDX-License-Identifier: Apache-2.0
"""Removes part files that killed pulls left, without touching those of running pulls.

A pull holds a shared lock (flock) on its destination while it has unpublished files there; the
kernel drops the lock when the pull ends, however it ends. A pull that gets the lock exclusively is
alone, so all part files made for this destination are leftovers. Their names identify the
destination, because destinations can be nested: a part file in `/data/a` may belong to a running
pull to `/data`, which holds its lock there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence

from contracts.shared.beneath import directory_beneath
from profiler.pull.errors import PullError

LOCK_TIMEOUT_S = 5.0
_RETRY_S = 0.02
_ANY_RUN = "[0-9a-f]{16}"


def part_prefix(root_fd: int) -> str:
    """Return the start of the names of all part files made for the open destination.

    It identifies the destination by inode and file system id. XFS derives the id from the device
    number, so leftovers stay after the volume got another number.
    """
    found = os.fstat(root_fd)
    file_system = os.fstatvfs(root_fd).f_fsid or found.st_dev  # some file systems have f_fsid 0
    name = hashlib.sha256(f"{file_system}:{found.st_ino}".encode()).hexdigest()[:16]
    return f".writewise-{name}-"


def share(root_fd: int, when_alone: Callable[[], None], shown: str) -> None:
    """Lock the destination until `root_fd` is closed; if no pull runs there, call `when_alone`.

    Raises PullError if another program keeps it locked; `shown` is its printable path. On a file
    system without such locks no pull ever counts as alone, so none removes leftovers.
    """
    if _is_alone(root_fd):
        when_alone()
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while not _is_shared(root_fd):
        if time.monotonic() >= deadline_s:
            raise PullError(
                f"another program has locked the destination {shown}",
                "find it with `lslocks` and end it, or pull to another directory",
            )
        time.sleep(_RETRY_S)  # another pull may be removing leftovers, which is quick


def _is_alone(root_fd: int) -> bool:
    try:
        fcntl.flock(root_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or on NFS, which cannot lock a directory exclusively
        return False
    return True


def _is_shared(root_fd: int) -> bool:
    """Try to get the shared lock, without waiting: any reader of the directory may hold a lock."""
    with contextlib.suppress(OSError):
        try:
            fcntl.flock(root_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def remove(root_fd: int, directories: Iterable[Sequence[str]], token: str = _ANY_RUN) -> None:
    """Remove part files of this destination from those of `directories` below it that exist.

    `token` is a regular expression for the run's token; by default, that of any run.
    """
    # boto3 appends its own suffix during a download.
    parts = re.compile(rf"{part_prefix(root_fd)}{token}-[0-9]+\.part(\.[0-9A-Za-z]+)?")
    for names in directories:
        with contextlib.suppress(OSError), directory_beneath(root_fd, names) as directory_fd:
            _remove_files(directory_fd, parts)
    programs = re.compile(rf"{part_prefix(root_fd)}{token}-all\.part")
    for name in filter(programs.fullmatch, os.listdir(root_fd)):
        shutil.rmtree(f"/proc/self/fd/{root_fd}/{name}", ignore_errors=True)  # follows no symlink


def _remove_files(directory_fd: int, names: re.Pattern[str]) -> None:
    for name in filter(names.fullmatch, os.listdir(directory_fd)):
        with contextlib.suppress(OSError):  # a directory, so not a part file
            os.unlink(name, dir_fd=directory_fd)
