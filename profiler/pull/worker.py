"""What runs in a worker process: it takes jobs from a pipe, and answers each.

So many are under way at a time as its client takes, each in a thread.

A worker holds nothing open below the destination between jobs, so that the destination can be
unmounted while the workers live on.
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

#: Per worker in the shared array: bytes, objects done, requests, then ns of waiting for their first
#: bytes, reading bodies, writing blocks and of attempts that were repeated, and of these attempts
#: how many S3 answered by SlowDown. Each slot has one writer.
COUNTERS = 8
#: After the workers' slots, one that the parent writes: not 0 when they are to stop.
STOP = 1
#: One job for so many threads waits for a thread, so that none idles while the parent hands out.
_AHEAD_PER = 4
#: HTTP's answers of a server that does not tell parts' sizes.
_NO_PARTS_TOLD = (405, 416, 501)


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
class PrefixJob(Job):
    """Fetch all that the plan's prefix names into a directory, which is made as `part_name`.

    `remote` stands for all: its key is the prefix, its size that of all objects together.
    """

    is_one_object: bool


@dataclass(frozen=True)
class Ready:
    """A worker's first answer: how many jobs it takes at a time, and whether whole prefixes."""

    jobs_at_once: int
    takes_prefixes: bool


@dataclass(frozen=True)
class VerifyJob(Job):
    """Compare the part file with the object; publish it if it is the same and if wanted.

    `from_device` reads it from the device, not from what the page cache still has of it. `answer`
    is what S3 said with the bytes; without it S3 is asked, unless `unasked` tells why it cannot be.
    `doubted` is why the size alone proves nothing; None if it does.
    """

    with_checksum: bool
    publish: bool
    from_device: bool = False
    answer: Answer | None = None
    unasked: Explanation | None = None
    doubted: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The answer to a job; `finished_ns` is on the monotonic clock, which processes share.

    `cpu_ns` is the CPU time of the worker that a verification took, `answer` what S3 said of a
    whole object with its bytes, `incomplete` why a PrefixJob did not fetch all.
    """

    job: Job
    finished_ns: int
    method: str = ""
    problem: Explanation | None = None
    cpu_ns: int = 0
    answer: Answer | None = None
    incomplete: str = ""


class Stopped(Exception):  # noqa: N818 - not an error: the parent wants no more of the job
    """The parent has told the workers to stop."""


class Counter:
    """A worker's slots in the shared array: read by the parent at any time, without a lock."""

    def __init__(self, counters: ctypes.Array[ctypes.c_int64], worker: int) -> None:
        self._counters, self._first = counters, worker * COUNTERS
        self._lock = threading.Lock()  # between the worker's threads

    def add_bytes(self, amount: int) -> None:
        """Count bytes (negative when they must be fetched again). Raises Stopped."""
        with self._lock:
            self._counters[self._first] += amount
        if self._counters[-STOP]:
            raise Stopped

    def add_object(self) -> None:
        """Count an object."""
        with self._lock:
            self._counters[self._first + 1] += 1

    def add_request(self, first_byte_ns: int, repeated_ns: int, slow_downs: int) -> None:
        """Count a request, how long its first byte took, and the attempts before."""
        with self._lock:
            self._counters[self._first + 2] += 1
            self._counters[self._first + 3] += first_byte_ns
            self._counters[self._first + 6] += repeated_ns
            self._counters[self._first + 7] += slow_downs

    def add_read(self, elapsed_ns: int, written_ns: int) -> None:
        """Count the time of reading from a body, and of writing what was read before."""
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
    """Work as worker `number` until the parent closes its end.

    The first answer is Ready, or an Explanation.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    die_with_parent(parent_pid)
    try:
        client = make_client()
    except Exception as error:  # whatever it is, the parent tells it
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
        counter.add_bytes(0)  # raises Stopped for what waited for a thread
        if isinstance(job, VerifyJob):
            return _verify(job, client, counter)
        if isinstance(job, PrefixJob):
            return _download_all(job, client, counter)
        answer = _download(job, client, counter)
        return Outcome(job, time.monotonic_ns(), answer=answer)
    except Exception as error:  # one object's failure; what it means is decided by `explain`
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
        if job.doubted and method == SIZE_ONLY and not problem:
            problem = f"it is not verified: {job.doubted}"
        if str(head.get("ETag", remote.etag)).strip('"') != remote.etag:
            problem = "the object was replaced while it was pulled"  # also when it came whole
        if not problem and job.publish:
            publish(directory_fd, job.part_name, remote.file_name)
    counter.add_bytes(remote.size_bytes)
    counter.add_object()
    explanation = Explanation(problem, "pull again", concerns_one_object=True) if problem else None
    cpu_ns = time.thread_time_ns() - cpu_started_ns
    return Outcome(job, time.monotonic_ns(), method, explanation, cpu_ns)


def _answer_about(job: VerifyJob, client: AnyClient) -> Answer:
    """What S3 says of the object; where it is not asked, or cannot be, what the listing said."""
    listed: Answer = {"ContentLength": job.remote.size_bytes}
    if not job.with_checksum:
        return listed
    if job.unasked is not None:
        return job.answer or {**listed, "ETag": job.remote.etag}
    return job.answer or client.head(job.bucket, job.remote.key)


def _without_s3(
    job: VerifyJob, method: str, problem: str | None, unasked: Explanation
) -> str | None:
    """The problem where S3 cannot be asked: what its answer and the listing do not prove is one.

    The listing's ETag alone, as an MD5, proves but refutes nothing: an encrypted object's looks
    alike and is none.
    """
    if method == SIZE_ONLY or (problem and not job.answer):
        return f"it is not verified: {unasked.message}"
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
    """Asks for the sizes of the parts that the object was uploaded in."""

    def ask(number: int) -> int | None:
        from botocore.exceptions import ClientError

        try:
            return int(client.head(job.bucket, job.remote.key, number)["ContentLength"])
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in _NO_PARTS_TOLD:
                return None
            raise

    return ask
