# SPDX-License-Identifier: Apache-2.0
"""Files in directories of root, such as /etc/sysctl.d: replaced atomically by a rename.

The temporary file is in the same directory. Its name cannot be guessed, and readers of the
directory ignore it. Symlinks are not followed. A directory that others can write to is refused,
because its files configure the host.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import PurePosixPath

from sysctl.host.system import HostError, System, host_errors

_MAX_BYTES = 2**20


def temporary_name(absolute: str) -> str:
    """Return a new name for the temporary file of `absolute`: hidden and without its suffix."""
    path = PurePosixPath(absolute)
    return str(path.with_name(f".{path.stem}.{secrets.token_hex(8)}"))


def read_file(system: System, absolute: str) -> str | None:
    """Return the text; None if there is no file. Raises HostError unless it is a regular file."""
    with _directory_of(system, absolute) as folder:
        if folder is None:
            return None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with host_errors(f"read {absolute}"):
            try:
                descriptor = os.open(PurePosixPath(absolute).name, flags, dir_fd=folder)
            except FileNotFoundError:
                return None
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise HostError(f"{absolute} is not a regular file", "move it away")
                return file.read(_MAX_BYTES).decode(errors="surrogateescape")


def replace_file(system: System, absolute: str, text: str, temporary: str) -> None:
    """Write `text` to `temporary`, sync it, rename it to `absolute` (0644). Raises HostError."""
    with _directory_of(system, absolute) as folder, host_errors(f"write {absolute}"):
        if folder is None:
            parent = PurePosixPath(absolute).parent
            raise HostError(f"{parent} does not exist", f"create it: mkdir -m 0755 {parent}")
        name = PurePosixPath(temporary).name
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(text.encode(errors="surrogateescape"))
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            target = PurePosixPath(absolute).name
            os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        os.fsync(folder)


def remove_file(system: System, absolute: str) -> None:
    """Delete the file if it exists; a symlink itself is deleted. Raises HostError."""
    with _directory_of(system, absolute) as folder, host_errors(f"delete {absolute}"):
        if folder is not None:
            name = PurePosixPath(absolute).name
            with contextlib.suppress(FileNotFoundError):
                os.stat(name, dir_fd=folder, follow_symlinks=False)  # unlink says EROFS first
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)


@contextlib.contextmanager
def _directory_of(system: System, absolute: str) -> Iterator[int | None]:
    """Open the file's directory; None if missing. Raises HostError if others can write to it."""
    parent = PurePosixPath(absolute).parent
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = None
    with host_errors(f"use {parent}"), contextlib.suppress(FileNotFoundError):
        descriptor = os.open(system.path(str(parent)), flags)
    try:
        if descriptor is not None:
            status = os.fstat(descriptor)
            if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
                raise HostError(
                    f"others can write to {parent}, so nothing is written there",
                    f"check its content, then run: chown root: {parent} && chmod 0755 {parent}",
                )
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
