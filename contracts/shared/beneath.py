# SPDX-License-Identifier: Apache-2.0
"""Opening files and directories below a directory without following symlinks.

Every step is an `openat` with O_NOFOLLOW from the previous directory, so users who can write to
one of the directories cannot redirect the walk, even if they rename entries at the time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def directory_beneath(root_fd: int, names: Sequence[str]) -> Iterator[int]:
    """Open the directory `names` below `root_fd`; its descriptor is valid inside the context.

    Raises OSError with the failed component as its `filename`: ELOOP or ENOTDIR for a symlink or a
    file on the way.
    """
    current = os.dup(root_fd)
    try:
        for name in names:
            following = _step(current, name)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


def _step(directory_fd: int, name: str) -> int:
    if name in ("", ".", "..") or "/" in name:
        raise OSError(errno.EINVAL, "not the name of a directory entry", name)
    return os.open(name, _DIRECTORY, dir_fd=directory_fd)


def open_file_beneath(root_fd: int, names: Sequence[str]) -> int:
    """Return a descriptor to read the regular file `names` below `root_fd`.

    Raises OSError: EINVAL unless it is a regular file. O_NONBLOCK keeps the open of a FIFO from
    waiting for a writer; it has no effect on a regular file.
    """
    with directory_beneath(root_fd, names[:-1]) as directory_fd:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(names[-1], flags, dir_fd=directory_fd)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", names[-1])
    return descriptor
