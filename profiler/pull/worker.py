"""What runs in a worker process: it takes jobs from a pipe, one at a time, and answers each.

A worker holds nothing open below the destination between jobs, so that the destination can be
unmounted while the workers live on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from profiler.beneath import directory_beneath, open_file_beneath
from profiler.processes import die_with_parent
from profiler.pull.client import PullClient
from profiler.pull.destination import publish
from profiler.pull.errors import Explanation, explain
from profiler.pull.source import RemoteObject
from profiler.pull.verification import forget_cached, verify

#: Per worker in the shared array: bytes, then objects done. Each slot has one writer.
COUNTERS = 2
#: After the workers' slots, one that the parent writes: not 0 when they are to stop.
STOP = 1


@dataclass(frozen=True)
class Job:
    """One object of a run: its number in the plan, and the file it is in until it is published."""

    number: int
    bucket: str
    remote: RemoteObject
    root_path: str
    part_name: str


@dataclass(frozen=True)
class DownloadJob(Job):
    """Fetch the object into its part file."""


@dataclass(frozen=True)
class VerifyJob(Job):
    """Compare the part file with the object; publish it if it is the same and if wanted.

    `from_device` reads it from the device, not from what the page cache still has of it.
    """

    with_checksum: bool
    publish: bool
    from_device: bool = False


@dataclass(frozen=True)
class Outcome:
    """The answer to a job; `finished_ns` is on the monotonic clock, which processes share.

    `cpu_ns` is the CPU time of the worker that a verification took.
    """

    job: Job
    finished_ns: int
    method: str = ""
    problem: Explanation | None = None
    cpu_ns: int = 0


class Stopped(Exception):  # noqa: N818 - not an error: the parent wants no more of the job
    """The parent has told the workers to stop."""


class Counter:
    """A worker's two slots in the shared array: read by the parent at any time, without a lock."""

    def __init__(self, counters: ctypes.Array[ctypes.c_int64], worker: int) -> None:
        self._counters, self._first = counters, worker * COUNTERS

    def add_bytes(self, amount: int) -> None:
        """Count bytes (negative when they must be fetched again). Raises Stopped."""
        self._counters[self._first] += amount
        if self._counters[-STOP]:
            raise Stopped

    def add_object(self) -> None:
        """Count an object."""
        self._counters[self._first + 1] += 1


def run_worker(
    connection: Connection,
    counter: Counter,
    make_client: Callable[[], PullClient],
    parent_pid: int,
) -> None:
    """Work until the parent closes its end. The first answer is None: ready, or an Explanation."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    die_with_parent(parent_pid)
    try:
        client = make_client()
    except Exception as error:  # whatever it is, the parent tells it
        connection.send(explain(error))
        return
    connection.send(None)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            connection.send(_perform(connection.recv(), client, counter))


def _perform(job: Job, client: PullClient, counter: Counter) -> Outcome:
    try:
        if isinstance(job, VerifyJob):
            return _verify(job, client, counter)
        _download(job, client, counter)
        return Outcome(job, time.monotonic_ns())
    except Exception as error:  # one object's failure; what it means is decided by `explain`
        return Outcome(job, time.monotonic_ns(), problem=explain(error, job.bucket))


def _download(job: Job, client: PullClient, counter: Counter) -> None:
    with _directory_of(job) as directory_fd:
        path = f"/proc/self/fd/{directory_fd}/{job.part_name}"
        client.download(job.bucket, job.remote.key, path, counter.add_bytes)
    counter.add_object()


@contextlib.contextmanager
def _directory_of(job: Job) -> Iterator[int]:
    root_fd = os.open(job.root_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with directory_beneath(root_fd, job.remote.directory) as directory_fd:
            yield directory_fd
    finally:
        os.close(root_fd)


def _verify(job: VerifyJob, client: PullClient, counter: Counter) -> Outcome:
    remote, cpu_started_ns = job.remote, time.process_time_ns()
    head = (
        client.head(job.bucket, remote.key)
        if job.with_checksum
        else {"ContentLength": remote.size_bytes}
    )
    with _directory_of(job) as directory_fd:
        method, problem = _verify_file(directory_fd, job.part_name, head, job.from_device)
        if str(head.get("ETag", remote.etag)).strip('"') != remote.etag:
            problem = "the object was replaced while it was pulled"  # also when it came whole
        if not problem and job.publish:
            publish(directory_fd, job.part_name, remote.file_name)
    counter.add_bytes(remote.size_bytes)
    counter.add_object()
    explanation = Explanation(problem, "pull again", concerns_one_object=True) if problem else None
    cpu_ns = time.process_time_ns() - cpu_started_ns
    return Outcome(job, time.monotonic_ns(), method, explanation, cpu_ns)


def _verify_file(
    directory_fd: int, name: str, head: dict[str, Any], from_device: bool = False
) -> tuple[str, str]:
    descriptor = open_file_beneath(directory_fd, (name,))
    try:
        if from_device:
            forget_cached(descriptor)
        return verify(descriptor, head)
    finally:
        os.close(descriptor)
