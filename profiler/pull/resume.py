# SPDX-License-Identifier: Apache-2.0
"""Finds which of a plan's objects the destination already has, so that a pull fetches the rest.

A file counts only if S3's checksum matches: a damaged file may still have the size and modification
time that `aws s3 sync` compares. Objects without a checksum are fetched again.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace

from contracts.shared.beneath import directory_beneath
from profiler.pull.destination import Destination, Staging
from profiler.pull.result import OnProgress
from profiler.pull.source import PullPlan, RemoteObject
from profiler.pull.workers import WorkerPool


@dataclass(frozen=True)
class Resumed:
    """The plan of the missing objects, and the objects that the destination already has."""

    missing: PullPlan
    kept: tuple[RemoteObject, ...]

    @property
    def kept_bytes(self) -> int:
        """Total size of the objects that the destination already has."""
        return self.missing.kept_bytes


def find_missing(
    pool: WorkerPool,
    plan: PullPlan,
    destination: Destination,
    on_progress: OnProgress | None = None,
) -> Resumed:
    """Compare the destination with `plan`, without writing anything.

    Raises PullError for an unusable destination, and for a problem that concerns all objects.
    """
    with destination.open() as root_fd:
        numbers = _of_equal_size(root_fd, plan)
        if not numbers:
            return Resumed(plan, ())
        same = set(pool.same_as_published(Staging(plan, root_fd), numbers, on_progress))
    left = tuple(each for number, each in enumerate(plan.objects) if number not in same)
    kept = tuple(plan.objects[each] for each in sorted(same))
    kept_bytes = sum(remote.size_bytes for remote in kept)
    return Resumed(replace(plan, objects=left, kept_bytes=kept_bytes), kept)


def _of_equal_size(root_fd: int, plan: PullPlan) -> list[int]:
    """Return the numbers of the objects for which a regular file of the same size exists."""
    by_directory: dict[tuple[str, ...], list[int]] = {}
    for number, remote in enumerate(plan.objects):
        by_directory.setdefault(remote.directory, []).append(number)
    found: list[int] = []
    for names, numbers in by_directory.items():
        try:
            with directory_beneath(root_fd, names) as directory_fd:
                found += [each for each in numbers if _is_equal(directory_fd, plan.objects[each])]
        except OSError:  # missing or not a directory: the pull itself reports it
            continue
    return found


def _is_equal(directory_fd: int, remote: RemoteObject) -> bool:
    try:
        found = os.stat(remote.file_name, dir_fd=directory_fd, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == remote.size_bytes
