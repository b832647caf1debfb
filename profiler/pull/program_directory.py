"""The directory that a program fetches into, which nobody else can lead it away from.

It lies below the destination, which others may own: they could rename it while the program runs
and put a symlink to `/etc` in its place. So the program gets no path by its name but one by an open
descriptor, which stays with the directory itself; and below it nobody else can write.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from contracts.shared.beneath import directory_beneath
from profiler.pull.errors import PullError, explain_local

#: In it: what the program fetches, and what it may keep beside that.
FILES, CACHE = "files", "cache"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@contextlib.contextmanager
def made_below(root_path: str, name: str) -> Iterator[str]:
    """Make the directory `name` below the destination: a path to its `files`, for other processes.

    It is good within the block, for processes of this user. Raises PullError when it cannot be
    made, or is not what was made.
    """
    with contextlib.ExitStack() as opened:
        try:
            root_fd = os.open(root_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, root_fd)
            os.mkdir(name, 0o700, dir_fd=root_fd)
            own_fd = opened.enter_context(directory_beneath(root_fd, (name,)))
            _check_is_own(own_fd)
            os.mkdir(FILES, 0o700, dir_fd=own_fd)
        except OSError as error:
            raise explain_local(error, "the directory of a program's files") from error
        yield f"/proc/{os.getpid()}/fd/{own_fd}/{FILES}"


def _check_is_own(own_fd: int) -> None:
    """Between being made and being opened it may have been replaced by one that others prepared."""
    found = os.fstat(own_fd)
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS or os.listdir(own_fd):
        raise PullError(
            "the directory of a program's files is not the one that was made at the destination",
            "its owner replaced it, or its file system has no owners: use the default --client",
        )
