# SPDX-License-Identifier: Apache-2.0
"""A worker process: takes jobs from a pipe and answers each.

It runs as many jobs at a time as its client takes, each in a thread. Between jobs it holds nothing
open below the destination, so the destination can be unmounted while workers live.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import cast

from contracts.shared.beneath import directory_beneath, open_file_beneath
from contracts.shared.processes import die_with_parent
from profiler.pull.clients.interface import (
    Answer,
    AnyClient,
    ObservedClient,
    PrefixClient,
    PrefixSource,
    PullClient,
)
from profiler.pull.destination import publish
from profiler.pull.errors import Explanation, explain
from profiler.pull.program_directory import made_below
from profiler.pull.source import RemoteObject
from profiler.pull.upload_parts import PartBytes
from profiler.pull.verification import SIZE_ONLY, forget_cached, verify

#: Slots per worker in the shared array: bytes, objects done, requests; the time in ns waiting for
#: first bytes, reading bodies, writing blocks and in repeated attempts; attempts that S3 answered
#: with SlowDown. Each slot has one writer.
COUNTERS = 8
#: Slots after the workers': one that the parent sets to non-zero to stop them.
STOP = 1
#: Threads per job that waits in a worker, so that no thread idles while the parent hands out jobs.
_AHEAD_PER = 4
#: HTTP status codes of servers that do not report the sizes of parts.
_NO_PART_SIZES = (405, 416, 501)


@dataclass(frozen=True)
class Job:
    """One object of a run: its number in the plan, and its file until it is published."""

    number: int
    bucket: str
    remote: RemoteObject
    root_path: str
    part_name: str


@dataclass(frozen=True)
class DownloadJob(Job):
    """Fetch the object into its part file."""


@dataclass(frozen=True)
class PrefixJob(Job):
    """Fetch everything below the plan's prefix into a new directory, `part_name`.

    `remote` stands for all objects: its key is the prefix, its size their total.
    """

    is_one_object: bool


@dataclass(frozen=True)
class Ready:
    """A worker's first answer: how many jobs it takes at a time, and whether these are prefixes."""

    jobs_at_once: int
    takes_prefixes: bool


@dataclass(frozen=True)
class VerifyJob(Job):
    """Compare the part file with the object, and publish it if it matches and `publish` is set.

    `from_device` reads the file from the device instead of the page cache. `answer` is what S3 sent
    with the bytes; without it S3 is asked, unless `unasked` says why that is impossible. `unproven`
    is why an equal size does not prove the file complete; None if it does.
    """

    with_checksum: bool
    publish: bool
    from_device: bool = False
    answer: Answer | None = None
    unasked: Explanation | None = None
    unproven: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The answer to a job; `finished_ns` is of the monotonic clock, which processes share.

    `cpu_ns` is the CPU time of a verification, `answer` what S3 sent with the bytes of a whole
    object, `incomplete` why a PrefixJob did not fetch everything.
    """

    job: Job
    finished_ns: int
    method: str = ""
    problem: Explanation | None = None
    cpu_ns: int = 0
    answer: Answer | None = None
    incomplete: str = ""


class Stopped(Exception):  # noqa: N818 - not an error
    """The parent has asked the workers to stop."""


class Counter:
    """A worker's slots in the shared array; the parent reads them at any time, without a lock."""

    def __init__(self, counters: ctypes.Array[ctypes.c_int64], worker: int) -> None:
        self._counters, self._first = counters, worker * COUNTERS
        self._lock = threading.Lock()  # between the worker's threads

    def add_bytes(self, amount: int) -> None:
        """Count bytes, negative for those to be fetched again. Raises Stopped."""
        with self._lock:
            self._counters[self._first] += amount
        if self._counters[-STOP]:
            raise Stopped

    def add_object(self) -> None:
        """Count an object."""
        with self._lock:
            self._counters[self._first + 1] += 1

    def add_request(self, first_byte_ns: int, repeated_ns: int, slow_downs: int) -> None:
        """Count a request, the time to its first byte, and the attempts before it."""
        with self._lock:
            self._counters[self._first + 2] += 1
            self._counters[self._first + 3] += first_byte_ns
            self._counters[self._first + 6] += repeated_ns
            self._counters[self._first + 7] += slow_downs

    def add_read(self, elapsed_ns: int, written_ns: int) -> None:
        """Count the time of one read from a body, and of writing the block before it."""
        with self._lock:
            self._counters[self._first + 4] += elapsed_ns
            self._counters[self._first + 5] += written_ns


def run_worker(
    connection: Connection,
    counters: ctypes.Array[ctypes.c_int64],
    number: int,
    make_client: Callable[[], AnyClient],
    parent_pid: int,
) -> None:
    """Run as worker `number` until the parent closes its end of the pipe.

    The first answer is Ready, or an Explanation if no client can be made.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    die_with_parent(parent_pid)
    try:
        client = make_client()
    except Exception as error:  # the parent reports it, whatever it is
        connection.send(explain(error))
        return
    threads = client.objects_at_once
    connection.send(Ready(threads + threads // _AHEAD_PER, isinstance(client, PrefixClient)))
    counter, sending = Counter(counters, number), threading.Lock()
    if isinstance(client, ObservedClient):
        client.observe(counter.add_request, counter.add_read)

    def answer(job: Job) -> None:
        outcome = _perform(job, client, counter)
        with sending, contextlib.suppress(ConnectionError):
            connection.send(outcome)

    with contextlib.suppress(EOFError, ConnectionError), ThreadPoolExecutor(threads) as pool:
        while True:
            pool.submit(answer, connection.recv())


def _perform(job: Job, client: AnyClient, counter: Counter) -> Outcome:
    try:
        counter.add_bytes(0)  # raises Stopped for a job that waited for a thread
        if isinstance(job, VerifyJob):
            return _verify(job, client, counter)
        if isinstance(job, PrefixJob):
            return _download_all(job, client, counter)
        answer = _download(job, client, counter)
        return Outcome(job, time.monotonic_ns(), answer=answer)
    except Exception as error:  # `explain` decides whether it concerns this object only
        return Outcome(job, time.monotonic_ns(), problem=explain(error, job.bucket))


def _download(job: Job, client: AnyClient, counter: Counter) -> Answer | None:
    with _directory_of(job) as directory_fd:
        path = f"/proc/self/fd/{directory_fd}/{job.part_name}"
        fetch = cast(PullClient, client).download
        answer = fetch(job.bucket, job.remote, path, counter.add_bytes)
    counter.add_object()
    return answer


def _download_all(job: PrefixJob, client: AnyClient, counter: Counter) -> Outcome:
    source = PrefixSource(job.bucket, job.remote.key, job.is_one_object, job.remote.size_bytes)
    fetch = cast(PrefixClient, client).download_all
    with made_below(job.root_path, job.part_name) as directory:
        incomplete = fetch(source, directory, counter.add_bytes)
    return Outcome(job, time.monotonic_ns(), incomplete=incomplete)


@contextlib.contextmanager
def _directory_of(job: Job) -> Iterator[int]:
    root_fd = os.open(job.root_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with directory_beneath(root_fd, job.remote.directory) as directory_fd:
            yield directory_fd
    finally:
        os.close(root_fd)


def _verify(job: VerifyJob, client: AnyClient, counter: Counter) -> Outcome:
    remote, cpu_started_ns = job.remote, time.thread_time_ns()
    head = _answer_about(job, client)
    with _directory_of(job) as directory_fd:
        part_bytes = None if job.unasked else _part_bytes(job, client)
        method, problem = verify_file(directory_fd, job, head, part_bytes)
        if job.unasked is not None and job.with_checksum:
            problem = _without_s3(job, method, problem, job.unasked)
        if job.unproven and method == SIZE_ONLY and not problem:
            problem = f"it could not be verified: {job.unproven}"
        if str(head.get("ETag", remote.etag)).strip('"') != remote.etag:
            problem = "the object was replaced while it was pulled"
        if not problem and job.publish:
            publish(directory_fd, job.part_name, remote.file_name)
    counter.add_bytes(remote.size_bytes)
    counter.add_object()
    explanation = Explanation(problem, "pull again", concerns_one_object=True) if problem else None
    cpu_ns = time.thread_time_ns() - cpu_started_ns
    return Outcome(job, time.monotonic_ns(), method, explanation, cpu_ns)


def _answer_about(job: VerifyJob, client: AnyClient) -> Answer:
    """Return S3's answer about the object, or what the listing said if S3 is not asked."""
    listed: Answer = {"ContentLength": job.remote.size_bytes}
    if not job.with_checksum:
        return listed
    if job.unasked is not None:
        return job.answer or {**listed, "ETag": job.remote.etag}
    return job.answer or client.head(job.bucket, job.remote.key)


def _without_s3(
    job: VerifyJob, method: str, problem: str | None, unasked: Explanation
) -> str | None:
    """Return the problem if S3 cannot be asked: the file is unproven by its answer and listing.

    A listed ETag that matches as an MD5 proves the file. One that differs refutes nothing, because
    an encrypted object's ETag looks like an MD5 and is none.
    """
    if method == SIZE_ONLY or (problem and not job.answer):
        return f"it could not be verified: {unasked.message}"
    return problem


def verify_file(
    directory_fd: int, job: VerifyJob, head: Answer, part_bytes: PartBytes | None
) -> tuple[str, str | None]:
    """Compare the part file with S3's answer; see `verification.verify`. Raises OSError."""
    descriptor = open_file_beneath(directory_fd, (job.part_name,))
    try:
        if job.from_device:
            forget_cached(descriptor)
        return verify(descriptor, head, part_bytes)
    finally:
        os.close(descriptor)


def _part_bytes(job: VerifyJob, client: AnyClient) -> PartBytes:
    """Return a function that asks S3 for the size of an uploaded part by its number."""

    def ask(number: int) -> int | None:
        from botocore.exceptions import ClientError

        try:
            return int(client.head(job.bucket, job.remote.key, number)["ContentLength"])
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in _NO_PART_SIZES:
                return None
            raise

    return ask
