"""Opening what lies below a directory without ever following a symlink.

Every step is an `openat` with O_NOFOLLOW from the directory before it, so nobody who may write in
one of the directories can lead the walk elsewhere, however the names change under it.
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
    """The directory `names` below `root_fd`, as a descriptor for as long as the context lasts.

    Raises OSError, with the name of the step that failed as its `filename`: ELOOP or ENOTDIR for
    a symlink or a file on the way.
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
    """A descriptor to read the regular file `names` below `root_fd`.

    Raises OSError, EINVAL for what is no regular file. O_NONBLOCK keeps the open of a FIFO from
    waiting for a writer; it means nothing to a file.
    """
    with directory_beneath(root_fd, names[:-1]) as directory_fd:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(names[-1], flags, dir_fd=directory_fd)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", names[-1])
    return descriptor
