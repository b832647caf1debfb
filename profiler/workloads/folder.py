# SPDX-License-Identifier: Apache-2.0
"""A temporary folder that is removed even if its process is killed.

The process holds an flock on it, which the kernel drops even after SIGKILL. So a folder that is not
empty and not locked was left by a killed run, and the next run removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "writewise-objects-"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder (0700) in TMPDIR and remove it at the end, after those of killed runs.

    Raises OSError.
    """
    remove_leftovers()
    with contextlib.ExitStack() as lock, tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        descriptor = os.open(name, _FLAGS)
        lock.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Path(name)


def remove_leftovers() -> None:
    """Remove the folders that killed runs of this user left in TMPDIR."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, or not one of these folders
            _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    """Remove a killed run's folder, but not an empty one, which may be new and not yet locked.

    Contents are removed through the descriptor that was checked, not by name. Raises OSError.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        names = os.listdir(descriptor)  # noqa: PTH208 (pathlib has no descriptors)
        for name in names:
            shutil.rmtree(f"/proc/self/fd/{descriptor}/{name}")
        if names:
            path.rmdir()
    finally:
        os.close(descriptor)
