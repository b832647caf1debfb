"""Part files that killed pulls left, told from those of pulls that live.

A pull holds a shared lock (flock) on its destination while it has files there that are not
published; the kernel drops it when the pull ends, however it ends. Whoever gets the lock
exclusively is alone there: then parts that were made for this destination are nobody's. Their
names say for which one they were made, because destinations can lie in each other: what is in
`/data/a` may belong to a live pull to `/data`, which holds its lock there.
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
    """What the names of all parts begin with that are made for the open destination.

    Its inode and its file system's id name it: XFS takes the id from the device number, so parts
    are not known again once the volume has another one; then they stay.
    """
    found = os.fstat(root_fd)
    file_system = os.fstatvfs(root_fd).f_fsid or found.st_dev  # f_fsid is 0 where there is none
    name = hashlib.sha256(f"{file_system}:{found.st_ino}".encode()).hexdigest()[:16]
    return f".writewise-{name}-"


def share(root_fd: int, when_alone: Callable[[], None], shown: str) -> None:
    """Lock the destination until `root_fd` is closed; call `when_alone` first if no pull has it.

    Raises PullError when another program keeps it locked; `shown` is its path, made printable. A
    file system without such locks gives none to others either: nothing is then removed by anyone.
    """
    if _is_alone(root_fd):
        when_alone()
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while not _is_shared(root_fd):
        if time.monotonic() >= deadline_s:
            raise PullError(
                f"another program has locked the destination {shown}",
                "lslocks tells which one; end it, or pull to another directory",
            )
        time.sleep(_RETRY_S)  # another pull is removing leftovers, which takes a moment


def _is_alone(root_fd: int) -> bool:
    try:
        fcntl.flock(root_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or NFS, which has no exclusive lock for a directory
        return False
    return True


def _is_shared(root_fd: int) -> bool:
    """Never waits: anybody who may read the destination may lock it, for as long as they like."""
    with contextlib.suppress(OSError):
        try:
            fcntl.flock(root_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def remove(root_fd: int, directories: Iterable[Sequence[str]], token: str = _ANY_RUN) -> None:
    """Remove the parts made for this destination from `directories` below it, as far as there.

    `token` is the run's, a regular expression; of any run by default.
    """
    # boto3 appends a suffix of its own while it downloads.
    parts = re.compile(rf"{part_prefix(root_fd)}{token}-[0-9]+\.part(\.[0-9A-Za-z]+)?")
    for names in directories:
        with contextlib.suppress(OSError), directory_beneath(root_fd, names) as directory_fd:
            _remove_files(directory_fd, parts)
    programs = re.compile(rf"{part_prefix(root_fd)}{token}-all\.part")
    for name in filter(programs.fullmatch, os.listdir(root_fd)):
        shutil.rmtree(f"/proc/self/fd/{root_fd}/{name}", ignore_errors=True)  # follows no symlink


def _remove_files(directory_fd: int, names: re.Pattern[str]) -> None:
    for name in filter(names.fullmatch, os.listdir(directory_fd)):
        with contextlib.suppress(OSError):  # a directory: none of ours
            os.unlink(name, dir_fd=directory_fd)
