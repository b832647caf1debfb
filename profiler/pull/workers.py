"""The worker processes of a pull: started once, handed objects one by one, in any number of runs.

A process each, because boto3 is bound by Python's lock; spawned, because clients and their
threads do not survive a fork. Use a pool from the thread that started it, and from one that lives
as long: the workers die with it.
"""

from __future__ import annotations

import ctypes
import functools
import math
import multiprocessing
import os
import signal
import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import RawArray
from typing import Any

import psutil

from contracts.environment import secrets_hidden
from contracts.errors import UsageError
from contracts.text import printable
from profiler.pull.access import S3Access
from profiler.pull.clients.direct import DirectClient
from profiler.pull.clients.interface import AnyClient
from profiler.pull.destination import Staging
from profiler.pull.errors import Explanation, PullError, PullStoppedError
from profiler.pull.prefix import collect, one_job_of
from profiler.pull.results import (
    Failure,
    OnProgress,
    Progress,
    PullResult,
    RequestTimes,
    Verification,
)
from profiler.pull.settings import TransferSettings
from profiler.pull.verification import SIZE_ONLY
from profiler.pull.worker import (
    COUNTERS,
    STOP,
    DownloadJob,
    Job,
    Outcome,
    Ready,
    VerifyJob,
    run_worker,
)

#: How often progress is reported, at least.
_TICK_S = 0.1
_MAX_WORKERS = 1024  # beyond the cores of any instance, and below what harms
_START_TIMEOUT_S = 60.0
#: Longer than a client needs to try again after each of its own timeouts.
_MAX_SILENCE_S = 120.0
_CLOSE_TIMEOUT_S = 1.0
_STOP_TIMEOUT_S = 0.8


class WorkerDiedError(PullError):
    """A worker process ended by itself or was killed."""

    def __init__(self, exit_code: int | None) -> None:
        by = "ended"
        if exit_code is not None and exit_code < 0:
            by = f"was killed by {signal.Signals(-exit_code).name}"
        super().__init__(
            f"a worker process {by} during the pull",
            "look for the out-of-memory killer in the kernel's log (dmesg); fewer workers, or a "
            "lower max_concurrency and max_io_queue, need less memory",
        )


@dataclass(frozen=True)
class _Worker:
    process: SpawnProcess
    connection: Connection


class WorkerPool:
    """Worker processes that pull; a context manager.

    Each makes a `client_class(access, settings)` of its own. A run that raises ends the workers
    and so whatever they were doing; `start` (which a run calls too) then starts fresh ones.
    `worker_count` is one per core by default. Raises UsageError for one out of range.
    """

    def __init__(
        self,
        access: S3Access,
        settings: TransferSettings,
        worker_count: int | None = None,
        client_class: Callable[[S3Access, TransferSettings], AnyClient] = DirectClient,
    ) -> None:
        self._make_client = functools.partial(client_class, access, settings)
        self._worker_count = _check_count(worker_count)
        self._counters: ctypes.Array[ctypes.c_int64] = RawArray(
            ctypes.c_int64, COUNTERS * self._worker_count + STOP
        )
        self._workers: list[_Worker] = []
        self._ready = Ready(jobs_at_once=1, takes_prefixes=False)

    def __enter__(self) -> WorkerPool:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The pids of the workers that run now."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    def start(self) -> None:
        """Start the workers, unless they run, and wait until each has its client.

        Raises PullError when a client cannot be made, or a process not started.
        """
        if self._workers:
            return
        try:
            with _at_root():
                with secrets_hidden():  # before SIGINT is blocked: it unblocks it
                    resource_tracker.ensure_running()
                with _interrupt_blocked():
                    for number in range(self._worker_count):
                        self._workers.append(self._spawn(number))
            for worker in self._workers:
                self._ready = _wait_until_ready(worker)
        except BaseException as error:
            self.kill()
            if isinstance(error, OSError):
                raise _cannot_start(self._worker_count, error) from error
            raise

    def _spawn(self, number: int) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (theirs, self._counters, number, self._make_client, os.getpid())
        process = context.Process(target=run_worker, args=arguments, daemon=True)
        process.start()
        theirs.close()  # so that ours sees the end of file when the worker dies
        return _Worker(process, ours)

    def close(self) -> None:
        """Let the workers end, and kill those that do not within a second."""
        for worker in self._workers:
            worker.connection.close()
        deadline_s = time.monotonic() + _CLOSE_TIMEOUT_S
        for worker in self._workers:
            worker.process.join(max(0.0, deadline_s - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """End the workers now, whatever they do, and wait until they are gone."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        self._workers.clear()

    # -- runs ------------------------------------------------------------------------------------

    def run(
        self,
        staging: Staging,
        on_progress: OnProgress | None = None,
        stop_after_s: float | None = None,
    ) -> PullResult:
        """Fetch every object of the staging's plan into its part file.

        What fails for one object's sake is in the result. Raises PullError for what concerns all
        of them (credentials, network, a full destination, a dead worker), and PullStoppedError
        when it takes longer than `stop_after_s`: no worker writes any more then.
        """
        self.start()
        if self._ready.takes_prefixes:
            return self._run_at_once(staging, on_progress, stop_after_s)
        numbers = range(len(staging.plan.objects))
        jobs = [DownloadJob(**_job_fields(staging, number)) for number in numbers]
        pids, cpu_before_s = self.pids, _cpu_seconds(self.pids)
        started_ns = time.monotonic_ns()
        outcomes = self._distribute(jobs, on_progress, stop_after_s)
        cpu_after_s = _cpu_seconds(pids)  # None when one was replaced
        arrived = [outcome for outcome in outcomes if outcome.problem is None]
        last_ns = max((outcome.finished_ns for outcome in outcomes), default=started_ns)
        return PullResult(
            started_monotonic_ns=started_ns,
            return_seconds=(last_ns - started_ns) / 1e9,
            bytes=sum(outcome.job.remote.size_bytes for outcome in arrived),
            arrived=tuple(sorted(outcome.job.number for outcome in arrived)),
            failures=_failures(outcomes),
            answers={each.job.number: each.answer for each in arrived if each.answer},
            requests=self._request_times(),
            cpu_seconds=cpu_after_s - cpu_before_s if cpu_after_s and cpu_before_s else None,
        )

    def _run_at_once(
        self, staging: Staging, on_progress: OnProgress | None, stop_after_s: float | None
    ) -> PullResult:
        """As `run`, by a program that fetches the whole prefix."""
        job, started_ns = one_job_of(staging), time.monotonic_ns()
        (outcome,) = self._distribute([job], on_progress, stop_after_s)
        if outcome.problem is not None:
            raise outcome.problem.as_error()
        arrived, failures = collect(staging, job.part_name, outcome.incomplete)
        return PullResult(
            started_monotonic_ns=started_ns,
            return_seconds=(outcome.finished_ns - started_ns) / 1e9,
            bytes=sum(staging.plan.objects[number].size_bytes for number in arrived),
            arrived=arrived,
            failures=failures,
        )

    def verify(
        self,
        staging: Staging,
        result: PullResult,
        *,
        with_checksum: bool = True,
        from_device: bool = False,
        publish: bool = True,
        on_progress: OnProgress | None = None,
    ) -> Verification:
        """Verify what arrived, in parallel; with `publish` each good file gets its final name.

        Without `with_checksum` only sizes are compared, with those of the listing; `from_device`
        reads the files back from the device. Raises as `run`.
        """
        self.start()
        wanted: dict[str, Any] = {"with_checksum": with_checksum, "from_device": from_device}
        fields = [_job_fields(staging, number) for number in result.arrived]
        for each in fields:
            each["answer"] = result.answers.get(each["number"])
        jobs = [VerifyJob(**each, **wanted, publish=publish) for each in fields]
        started_s = time.monotonic()
        outcomes = self._distribute(jobs, on_progress)
        methods = Tally(outcome.method for outcome in outcomes if outcome.problem is None)
        return Verification(
            methods,
            _failures(outcomes),
            time.monotonic() - started_s,
            cpu_seconds=sum(outcome.cpu_ns for outcome in outcomes) / 1e9,
            bytes=sum(outcome.job.remote.size_bytes for outcome in outcomes),
        )

    def same_as_published(
        self, staging: Staging, numbers: Sequence[int], on_progress: OnProgress | None = None
    ) -> tuple[int, ...]:
        """Those of the plan's `numbers` whose final file is the object, by a checksum of S3's.

        A file of which only the size can be compared is not among them. Raises as `run`.
        """
        self.start()
        fields = [_job_fields(staging, number) for number in numbers]
        for each in fields:
            each["part_name"] = each["remote"].file_name
        jobs = [VerifyJob(**each, with_checksum=True, publish=False) for each in fields]
        outcomes = self._distribute(jobs, on_progress)
        same = (each for each in outcomes if each.problem is None and each.method != SIZE_ONLY)
        return tuple(sorted(outcome.job.number for outcome in same))

    def _distribute(
        self,
        jobs: Sequence[Job],
        on_progress: OnProgress | None,
        stop_after_s: float | None = None,
    ) -> list[Outcome]:
        """Give each worker as many jobs as it takes, and one more for each answer; all answers."""
        began_s, limit_s = time.monotonic(), math.inf if stop_after_s is None else stop_after_s
        waiting, idle = deque(jobs), deque(self._workers * self._ready.jobs_at_once)
        busy: list[_Worker] = []  # a worker once for each job that it has
        in_hand: dict[int, Job] = {}
        outcomes: list[Outcome] = []
        progress, silence = self._progress_of(jobs), _Silence()
        try:
            while waiting or busy:
                while waiting and idle:
                    worker, job = idle.popleft(), waiting.popleft()
                    _send(worker, job)
                    busy.append(worker)
                    in_hand[job.number] = job
                for worker in _answering(busy, _TICK_S):
                    outcomes.append(_unless_hopeless(_receive(worker)))
                    del in_hand[outcomes[-1].job.number]
                    busy.remove(worker)
                    idle.append(worker)
                if on_progress:
                    on_progress(progress())
                if silence.seconds(progress(), len(outcomes)) > _MAX_SILENCE_S and _fetch(in_hand):
                    outcomes += self._give_up(in_hand)
                    busy, idle = [], deque(self._workers * self._ready.jobs_at_once)
                if (waiting or busy) and time.monotonic() - began_s > limit_s:
                    self._stop(busy)
                    raise PullStoppedError(limit_s)
        except PullStoppedError:
            raise  # the workers are idle, or gone
        except BaseException:  # Ctrl-C too: nothing may write to the destination after this
            self.kill()
            raise
        return outcomes

    def _give_up(self, in_hand: dict[int, Job]) -> list[Outcome]:
        """End the workers with what they have in hand, and start others; outcomes for it.

        What trickles in keeps a client waiting for ever: its timeouts are for silence alone.
        """
        self.kill()
        self.start()
        now_ns, problem = time.monotonic_ns(), _too_slow()
        outcomes = [Outcome(job, now_ns, problem=problem) for job in in_hand.values()]
        in_hand.clear()
        return outcomes

    def _stop(self, busy: list[_Worker]) -> None:
        """Make the workers give their jobs up; those that do not in time are ended, and all."""
        self._counters[-STOP] = 1
        deadline_s = time.monotonic() + _STOP_TIMEOUT_S
        while busy:
            left_s = deadline_s - time.monotonic()
            answering = _answering(busy, max(0.0, left_s))
            if not answering:
                self.kill()
                return
            for worker in answering:
                _receive(worker)
                busy.remove(worker)

    def _request_times(self) -> RequestTimes | None:
        """Those of the run that has ended; None for a client that tells none."""
        count, first_byte_ns, body_ns = (
            sum(self._counters[slot:-STOP:COUNTERS]) for slot in (2, 3, 4)
        )
        return RequestTimes(count, first_byte_ns / 1e9, body_ns / 1e9) if count else None

    def _progress_of(self, jobs: Sequence[Job]) -> Callable[[], Progress]:
        """A function that reads the counters, which start at 0 for these jobs."""
        counters, started_s = self._counters, time.monotonic()
        counters[:] = [0] * len(counters)  # the workers are idle
        total_bytes = sum(job.remote.size_bytes for job in jobs)

        def read() -> Progress:
            done_bytes, done_objects = (
                sum(counters[:-STOP:COUNTERS]),
                sum(counters[1:-STOP:COUNTERS]),
            )
            elapsed_s = time.monotonic() - started_s
            return Progress(done_bytes, done_objects, total_bytes, len(jobs), elapsed_s)

        return read


class _Silence:
    """How long nothing has been fetched, of no object."""

    def __init__(self) -> None:
        self._seen: tuple[int, ...] = ()
        self._since_s = time.monotonic()

    def seconds(self, progress: Progress, answers: int) -> float:
        """Since the last time that one of these figures was another."""
        seen = (progress.bytes, progress.objects, answers)
        if seen != self._seen:
            self._seen, self._since_s = seen, time.monotonic()
        return time.monotonic() - self._since_s


def _fetch(in_hand: dict[int, Job]) -> bool:
    """Whether these are objects being fetched: only of these each block of bytes is counted."""
    return any(isinstance(job, DownloadJob) for job in in_hand.values())


def _too_slow() -> Explanation:
    sentence = f"the object was given up: nothing arrived for {_MAX_SILENCE_S:.0f} s"
    return Explanation(sentence, "pull again", concerns_one_object=True)


def _cpu_seconds(pids: Iterable[int]) -> float | None:
    """The CPU time that these processes have used since they began; None if one has ended."""
    try:
        times = [psutil.Process(pid).cpu_times() for pid in pids]
    except psutil.Error:
        return None
    return float(sum(each.user + each.system for each in times))


def _job_fields(staging: Staging, number: int) -> dict[str, Any]:
    plan = staging.plan
    return {
        "number": number,
        "bucket": plan.location.bucket,
        "remote": plan.objects[number],
        "root_path": staging.root_path,
        "part_name": staging.part_name(number),
    }


def _receive(worker: _Worker) -> Outcome:
    """The answer of a worker that has one. Raises WorkerDiedError."""
    try:
        outcome: Outcome = worker.connection.recv()
    except (EOFError, OSError):
        raise _died(worker) from None
    return outcome


def _send(worker: _Worker, job: Job) -> None:
    try:
        worker.connection.send(job)
    except OSError:
        raise _died(worker) from None


def _died(worker: _Worker) -> WorkerDiedError:
    worker.process.join(_CLOSE_TIMEOUT_S)
    return WorkerDiedError(worker.process.exitcode)


def _answering(busy: Iterable[_Worker], timeout_s: float) -> list[_Worker]:
    """The workers that have an answer, each once; waits for one if none has."""
    workers = {worker.process.pid: worker for worker in busy}
    ready = set(wait([worker.connection for worker in workers.values()], timeout_s))
    return [worker for worker in workers.values() if worker.connection in ready]


def _wait_until_ready(worker: _Worker) -> Ready:
    if not worker.connection.poll(_START_TIMEOUT_S):
        raise PullError(f"a worker process did not start within {_START_TIMEOUT_S:.0f} s")
    try:
        first: Ready | Explanation = worker.connection.recv()
    except (EOFError, OSError):
        raise _died(worker) from None
    if isinstance(first, Explanation):
        raise first.as_error()
    return first


def _cannot_start(count: int, error: OSError) -> PullError:
    return PullError(
        f"{count} worker processes cannot be started: {os.strerror(error.errno or 0)}",
        "use fewer --workers, or raise the limits of open files and processes (ulimit -n, -u)",
    )


def _check_count(asked: int | None) -> int:
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
    """Be in `/` while processes are spawned.

    multiprocessing starts `python -c`, which looks for modules in the current directory first (and
    -I cannot be passed on): there, others could have put a `multiprocessing.py` of their own.
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
    """A child inherits the mask: Ctrl-C cannot hit it before it ignores the signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unless_hopeless(outcome: Outcome) -> Outcome:
    """The outcome. Raises PullError when its problem would meet the other objects too."""
    problem = outcome.problem
    if problem is not None and not problem.concerns_one_object:
        key = printable(outcome.job.remote.key)
        raise PullError(f"{key}: {problem.message}", problem.hint)
    return outcome


def _failures(outcomes: Iterable[Outcome]) -> tuple[Failure, ...]:
    return tuple(
        Failure(printable(outcome.job.remote.key), outcome.problem.message)
        for outcome in sorted(outcomes, key=lambda outcome: outcome.job.number)
        if outcome.problem is not None
    )
