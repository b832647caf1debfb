# SPDX-License-Identifier: Apache-2.0
"""A textfile for the node_exporter: what a batch command measured, until its next run.

The file is replaced at once (rename), readable by all (the node_exporter runs as another user), and
has no timestamps, which the node_exporter refuses. Its directory must be one that only root and
this user can write to, because the node_exporter shows what is there as the host's own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.trust import trusted_owners
from contracts.shared.writing import create, directory_of
from profiler.metrics.definitions import MetricValue

SUFFIX = ".prom"
_MODE = 0o644
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def check_textfile(path: Path) -> None:
    """Raise UsageError for a file that `write_textfile` would refuse."""
    try:
        with directory_of(path) as (directory, name):
            _check(path, directory, name)
            if not os.access(f"/proc/self/fd/{directory}", os.W_OK):
                raise _refused(path, "its directory is not writable")
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None


def write_textfile(path: Path, values: Iterable[MetricValue]) -> None:
    """Replace the file with one that has the values. Raises UsageError."""
    from profiler.metrics.exposition import text_of

    text = text_of(values)
    try:
        with directory_of(path) as (directory, name):
            _check(path, directory, name)
            _replace(directory, name, text)
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None


def _check(path: Path, directory: int, name: str) -> None:
    if not name.endswith(SUFFIX) or name == SUFFIX:
        raise _refused(path, f"the node_exporter reads only files that end with {SUFFIX}")
    status = os.fstat(directory)
    if status.st_uid not in trusted_owners():
        raise _refused(path, "its directory belongs to another user")
    if status.st_mode & _OTHERS_WRITE:
        raise _refused(path, "others can write to its directory")


def _replace(directory: int, name: str, text: str) -> None:
    """Write next to the file, under a name that the node_exporter ignores, and rename."""
    temporary = f".writewise-{secrets.token_hex(8)}"
    try:
        with os.fdopen(create(directory, temporary), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), _MODE)  # whatever the umask is
            file.write(text)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _refused(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"cannot write the metrics to {printable(str(path))}: {reason}",
        f"name a file *{SUFFIX} in a directory that only root can write to, such as "
        "/var/lib/prometheus/node-exporter/writewise.prom",
    )
