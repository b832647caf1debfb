"""What of a plan lies at the destination already, so that a second pull fetches the rest alone.

A file counts as the object only if a checksum that S3 gives says so: size and time of change,
which `aws s3 sync` goes by, may fit a file that was damaged since. What S3 gives no checksum for
is therefore fetched again.
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
    """A plan's objects that are still to be pulled, and those that the destination has."""

    missing: PullPlan
    kept: tuple[RemoteObject, ...]

    @property
    def kept_bytes(self) -> int:
        """The size of what the destination has."""
        return self.missing.kept_bytes


def find_missing(
    pool: WorkerPool,
    plan: PullPlan,
    destination: Destination,
    on_progress: OnProgress | None = None,
) -> Resumed:
    """Compare what lies at the destination with `plan`; nothing is written.

    Raises PullError for a destination that cannot be used and for what concerns all objects.
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
    """The numbers of those objects whose final name is a regular file of their size."""
    by_directory: dict[tuple[str, ...], list[int]] = {}
    for number, remote in enumerate(plan.objects):
        by_directory.setdefault(remote.directory, []).append(number)
    found: list[int] = []
    for names, numbers in by_directory.items():
        try:
            with directory_beneath(root_fd, names) as directory_fd:
                found += [each for each in numbers if _is_equal(directory_fd, plan.objects[each])]
        except OSError:  # it is missing, or no directory: the pull itself says what is wrong
            continue
    return found


def _is_equal(directory_fd: int, remote: RemoteObject) -> bool:
    try:
        found = os.stat(remote.file_name, dir_fd=directory_fd, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == remote.size_bytes
