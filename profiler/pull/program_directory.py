# SPDX-License-Identifier: Apache-2.0
"""The directory that a program fetches into, which no other user can redirect.

It is below the destination, whose owner could rename it while the program runs and replace it with
a symlink to `/etc`. So the program gets a path through an open descriptor, which keeps naming the
same directory, and nobody else can write below it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from contracts.shared.beneath import directory_beneath
from profiler.pull.errors import PullError, explain_local

#: Its subdirectories: the fetched files, and the program's cache.
FILES, CACHE = "files", "cache"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@contextlib.contextmanager
def made_below(root_path: str, name: str) -> Iterator[str]:
    """Make the directory `name` below the destination and yield a path to its `files`.

    Other processes of this user can use the path within the block. Raises PullError if the
    directory cannot be made or was replaced.
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
            raise explain_local(
                error, "cannot make the directory for the client's files"
            ) from error
        yield f"/proc/{os.getpid()}/fd/{own_fd}/{FILES}"


def _check_is_own(own_fd: int) -> None:
    """Raise PullError if another user replaced the directory between mkdir and open."""
    found = os.fstat(own_fd)
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS or os.listdir(own_fd):
        raise PullError(
            "the directory for the client's files was replaced at the destination",
            "use the default --client: the destination's owner replaced the directory, or its file "
            "system does not keep owners",
        )
