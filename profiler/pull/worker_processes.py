# SPDX-License-Identifier: Apache-2.0
"""The worker processes of a pull: how they are started, asked to end, and killed.

Workers are processes because Python's global lock limits boto3. They die with the thread that
started them.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray
from typing import Any

from contracts.shared.environment import secrets_hidden
from contracts.shared.errors import UsageError
from profiler.pull.clients.interface import AnyClient
from profiler.pull.errors import Explanation, PullError
from profiler.pull.worker import COUNTERS, STOP, Job, Outcome, Ready, run_worker

#: Neither threads nor boto3 clients survive a fork.
START_METHOD = "spawn"
_MAX_WORKERS = 1024  # more than the cores of any instance, and still harmless
_START_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 1.0


class WorkerDiedError(PullError):
    """A worker process ended unexpectedly."""

    def __init__(self, exit_code: int | None) -> None:
        by = "ended"
        if exit_code is not None and exit_code < 0:
            by = f"was killed by {signal.Signals(-exit_code).name}"
        super().__init__(
            f"a worker process {by} during the pull",
            "check the kernel log (dmesg) for the out-of-memory killer; fewer workers, or a lower "
            "max_concurrency and max_io_queue, need less memory",
        )


@dataclass(frozen=True)
class Worker:
    """One process and this end of its pipe."""

    process: BaseProcess
    connection: Connection

    @property
    def pid(self) -> int:
        """Its pid."""
        return self.process.pid or 0

    def send(self, job: Job) -> None:
        """Send it a job. Raises WorkerDiedError."""
        try:
            self.connection.send(job)
        except OSError:
            raise self._died() from None

    def receive(self) -> Outcome:
        """Return its next answer, waiting if there is none yet. Raises WorkerDiedError."""
        try:
            outcome: Outcome = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        return outcome

    def wait_until_ready(self) -> Ready:
        """Wait for its client and return its first answer. Raises PullError if it has no client."""
        if not self.connection.poll(_START_TIMEOUT_S):
            raise PullError(f"a worker process did not start within {_START_TIMEOUT_S:.0f} s")
        try:
            first: Ready | Explanation = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if isinstance(first, Explanation):
            raise first.as_error()
        return first

    def _died(self) -> WorkerDiedError:
        self.process.join(_CLOSE_TIMEOUT_S)
        return WorkerDiedError(self.process.exitcode)


class WorkerProcesses:
    """`count` processes (None: one per core), each with a client that `make_client` makes there.

    `counters` is shared with them. `ready` says what jobs they take, once they run. Raises
    UsageError for a count out of range.
    """

    def __init__(self, make_client: Callable[[], AnyClient], count: int | None = None) -> None:
        self._make_client, self._count = make_client, check_count(count)
        slots = COUNTERS * self._count + STOP
        self.counters: ctypes.Array[ctypes.c_int64] = RawArray(ctypes.c_int64, slots)
        self.ready = Ready(jobs_at_once=1, takes_prefixes=False)
        self._running: list[Worker] = []

    @property
    def running(self) -> tuple[Worker, ...]:
        """The running workers: all, or none."""
        return tuple(self._running)

    def start(self) -> None:
        """Start them unless they are running, and wait until each has its client.

        Raises PullError if a client cannot be made or a process cannot be started.
        """
        if self._running:
            return
        try:
            with _at_root():
                with secrets_hidden():  # before SIGINT is blocked, because the tracker unblocks it
                    resource_tracker.ensure_running()
                with _interrupt_blocked():
                    for number in range(self._count):
                        self._running.append(self._spawn(number))
            for worker in self._running:
                self.ready = worker.wait_until_ready()
        except BaseException as error:
            self.kill()
            if isinstance(error, OSError):
                raise _cannot_start(self._count, error) from error
            raise

    def _spawn(self, number: int) -> Worker:
        context: Any = multiprocessing.get_context(START_METHOD)
        ours, theirs = context.Pipe()
        arguments = (theirs, self.counters, number, self._make_client, os.getpid())
        process = context.Process(target=run_worker, args=arguments, daemon=True)
        process.start()
        theirs.close()  # so that ours reads an end of file when the worker dies
        return Worker(process, ours)

    def close(self) -> None:
        """Let them end, and kill those that have not ended within a second."""
        for worker in self._running:
            worker.connection.close()
        deadline_s = time.monotonic() + _CLOSE_TIMEOUT_S
        for worker in self._running:
            worker.process.join(max(0.0, deadline_s - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """Kill them and wait until they are gone."""
        for worker in self._running:
            worker.process.kill()
        for worker in self._running:
            worker.process.join()
            worker.connection.close()
        self._running.clear()


def _cannot_start(count: int, error: OSError) -> PullError:
    return PullError(
        f"{count} worker processes cannot be started: {os.strerror(error.errno or 0)}",
        "use fewer --workers, or raise the limits of open files and processes (ulimit -n, -u)",
    )


def check_count(asked: int | None) -> int:
    """Return the number of workers, by default one per core. Raises UsageError."""
    if asked is None:
        return min(os.cpu_count() or 1, _MAX_WORKERS)
    if not 1 <= asked <= _MAX_WORKERS:
        raise UsageError(
            f"{asked} workers are out of range",
            f"use --workers 1 to {_MAX_WORKERS}; one per core is the default",
        )
    return asked


@contextmanager
def _at_root() -> Iterator[None]:
    """Change to `/` while processes are spawned.

    multiprocessing starts `python -c`, which looks for modules in the current directory first, and
    it cannot pass -I: another user could have put a `multiprocessing.py` there.
    """
    before = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir("/")
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextmanager
def _interrupt_blocked() -> Iterator[None]:
    """Block SIGINT: a child inherits the mask, so Ctrl-C cannot end it before it ignores SIGINT."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
