# SPDX-License-Identifier: Apache-2.0
"""A pull by a program that fetches a whole prefix into a directory of its own.

The directory is below the destination, so each file moves by one rename. The files become part
files, which are verified and published like those of every other client.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from contracts.shared.beneath import directory_beneath, open_file_beneath
from contracts.shared.text import printable
from profiler.pull.destination import Staging
from profiler.pull.program_directory import FILES
from profiler.pull.result import Failure, PullResult
from profiler.pull.source import RemoteObject
from profiler.pull.worker import Outcome, PrefixJob

_NOT_FETCHED = "the client did not fetch it"


def one_job_of(staging: Staging) -> PrefixJob:
    """Return one job for the whole prefix, including objects that the destination already has."""
    plan = staging.plan
    prefix, objects = plan.location.prefix, plan.objects
    is_one_object = len(objects) == 1 and objects[0].key == prefix
    if prefix and not is_one_object and not prefix.endswith("/"):
        prefix += "/"
    return PrefixJob(
        number=0,
        bucket=plan.location.bucket,
        remote=RemoteObject(prefix, "", plan.bytes + plan.kept_bytes, ""),
        root_path=staging.root_path,
        part_name=staging.directory_name,
        is_one_object=is_one_object,
    )


def collect(staging: Staging, outcome: Outcome, started_ns: int) -> PullResult:
    """Make part files of what a program fetched with this `outcome`, started at `started_ns`.

    A missing file is a failure, and so is anything but a regular file, or a file behind a symlink.
    """
    directory, incomplete = outcome.job.part_name, outcome.incomplete
    arrived: list[int] = []
    failures: list[Failure] = []
    for number, remote in enumerate(staging.plan.objects):
        try:
            _take(staging, directory, number, is_whole=not incomplete)
            arrived.append(number)
        except OSError:
            failures.append(Failure(printable(remote.key), incomplete or _NOT_FETCHED))
    sizes_bytes = tuple(staging.plan.objects[number].size_bytes for number in arrived)
    return PullResult(
        started_monotonic_ns=started_ns,
        return_s=(outcome.finished_ns - started_ns) / 1e9,
        bytes=sum(sizes_bytes),
        arrived=tuple(arrived),
        failures=tuple(failures),
        sizes_bytes=sizes_bytes,
        incomplete=incomplete,
    )


def _take(staging: Staging, directory: str, number: int, *, is_whole: bool) -> None:
    remote = staging.plan.objects[number]
    with _directories(staging.root_fd, directory, remote.directory) as (source_fd, target_fd):
        descriptor = open_file_beneath(source_fd, (remote.file_name,))
        try:
            if not is_whole:
                _check_has_no_holes(descriptor)
        finally:
            os.close(descriptor)
        os.rename(
            remote.file_name,
            staging.part_name(number),
            src_dir_fd=source_fd,
            dst_dir_fd=target_fd,
        )


def _check_has_no_holes(descriptor: int) -> None:
    """Raise OSError for a file that was not written completely.

    The size does not show it: programs that fetch several parts at a time set the size first, and
    some preallocate blocks. lseek(2) reports unwritten blocks as holes, too.
    """
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes and os.lseek(descriptor, 0, os.SEEK_HOLE) < size_bytes:
        raise OSError(errno.ENODATA, "a file with holes")


@contextlib.contextmanager
def _directories(root_fd: int, directory: str, below: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    source = directory_beneath(root_fd, (directory, FILES, *below))
    with source as source_fd, directory_beneath(root_fd, below) as target_fd:
        yield source_fd, target_fd
