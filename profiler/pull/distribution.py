# SPDX-License-Identifier: Apache-2.0
"""The distribution of jobs to worker processes, until all are answered or none can succeed.

Each worker holds as many jobs as it takes at a time, and gets a new one for each answer.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait

from profiler.pull.errors import Explanation, PullStoppedError
from profiler.pull.problem_scope import ProblemScope
from profiler.pull.result import OnProgress, Progress
from profiler.pull.worker import COUNTERS, STOP, DownloadJob, Job, Outcome, PrefixJob
from profiler.pull.worker_processes import Worker, WorkerProcesses

#: Longest time between two progress reports.
_TICK_S = 0.1
#: Longer than a client takes to retry after each of its own timeouts.
MAX_SILENCE_S = 120.0
#: How long to wait without progress for the jobs under way once no other object can succeed.
_MAX_LAST_SILENCE_S = 3.0
_STOP_TIMEOUT_S = 0.8


@dataclass
class Distributed:
    """The answers to a run's jobs, and the `unanswered` jobs.

    `ended_by` is the answer whose problem concerns every object, so that no more jobs were handed
    out; None without one.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    unanswered: list[Job] = field(default_factory=list)
    ended_by: Outcome | None = None


class Distribution:
    """One run of jobs over the processes, which run nothing else at that time."""

    def __init__(
        self,
        processes: WorkerProcesses,
        jobs: Sequence[Job],
        on_progress: OnProgress | None,
        problem_scope: ProblemScope,
    ) -> None:
        self._processes, self._on_progress, self._problem_scope = (
            processes,
            on_progress,
            problem_scope,
        )
        self._waiting = deque(jobs)
        self._in_hand: dict[int, Job] = {}
        self._busy: list[Worker] = []  # lists a worker once for each of its jobs
        self._idle = self._all_places()
        self._done = Distributed()
        self._progress = _progress_of(processes, jobs)
        self._silence = _Silence()

    def run(self, stop_after_s: float | None = None) -> Distributed:
        """Hand out the jobs until all are answered, or a problem concerns all of them.

        Raises WorkerDiedError, and PullStoppedError when it takes longer than `stop_after_s`. No
        worker writes any more after it.
        """
        began_s, limit_s = time.monotonic(), math.inf if stop_after_s is None else stop_after_s
        try:
            while self._waiting or self._busy:
                self._hand_out()
                self._take_answers(_TICK_S)
                if self._on_progress:
                    self._on_progress(self._progress())
                self._end_silence()
                if (self._waiting or self._busy) and time.monotonic() - began_s > limit_s:
                    self._stop()
                    raise PullStoppedError(limit_s)
        except PullStoppedError:
            raise  # the workers are idle, or gone
        except BaseException:  # Ctrl-C too: nothing may write to the destination after this
            self._end_workers()
            raise
        return self._done

    def _all_places(self) -> deque[Worker]:
        return deque(self._processes.running * self._processes.ready.jobs_at_once)

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            worker, job = self._idle.popleft(), self._waiting.popleft()
            worker.send(job)
            self._busy.append(worker)
            self._in_hand[job.number] = job

    def _take_answers(self, timeout_s: float) -> None:
        for worker in _answering(self._busy, timeout_s):
            outcome = self._resolved(worker.receive())
            del self._in_hand[outcome.job.number]
            self._busy.remove(worker)
            self._idle.append(worker)
            self._done.outcomes.append(outcome)
            if outcome.problem is not None and not outcome.problem.concerns_one_object:
                self._end(outcome)

    def _resolved(self, outcome: Outcome) -> Outcome:
        """Return the answer, with a problem that is no longer ambiguous."""
        problem, job = outcome.problem, outcome.job
        has_ended = self._done.ended_by is not None  # then S3 is not asked again
        if problem is None or not problem.is_ambiguous or has_ended:
            return outcome
        return replace(
            outcome, problem=self._problem_scope.resolve(problem, job.bucket, job.remote.key)
        )

    def _end(self, outcome: Outcome) -> None:
        self._done.ended_by = self._done.ended_by or outcome
        self._done.unanswered += self._waiting
        self._waiting.clear()

    def _end_silence(self) -> None:
        silence_s = self._silence.seconds(self._progress(), len(self._done.outcomes))
        if not _fetch(self._in_hand):
            return
        if self._done.ended_by is not None and silence_s > _MAX_LAST_SILENCE_S:
            self._done.unanswered += self._in_hand.values()
            self._stop()
        elif silence_s > MAX_SILENCE_S:
            self._give_up()

    def _give_up(self) -> None:
        """Kill the workers, give up their jobs, and start new workers.

        A client waits forever for data that trickles in: its timeouts measure only silence.
        """
        self._end_workers()
        self._processes.start()
        self._done.outcomes += [_given_up(job) for job in self._in_hand.values()]
        self._in_hand.clear()
        self._idle = self._all_places()

    def _end_workers(self) -> None:
        """Kill the workers, whatever they are doing.

        One that runs a program is asked first: it alone can end the program's own children.
        """
        busy, self._busy = self._busy, []
        try:
            if busy and any(isinstance(job, PrefixJob) for job in self._in_hand.values()):
                self._processes.counters[-STOP] = 1
                _answering(busy, _STOP_TIMEOUT_S)
        finally:
            self._processes.kill()

    def _stop(self) -> None:
        """Make the workers give up their jobs; kill all workers if one does not in time."""
        self._processes.counters[-STOP] = 1
        deadline_s = time.monotonic() + _STOP_TIMEOUT_S
        while self._busy:
            left_s = deadline_s - time.monotonic()
            answering = _answering(self._busy, max(0.0, left_s))
            if not answering:
                self._processes.kill()
                self._busy = []
                return
            for worker in answering:
                worker.receive()
                self._busy.remove(worker)


class _Silence:
    """Measures how long no object has made progress."""

    def __init__(self) -> None:
        self._seen: tuple[int, ...] = ()
        self._since_s = time.monotonic()

    def seconds(self, progress: Progress, answers: int) -> float:
        """Return the time since one of these figures last changed."""
        seen = (progress.bytes, progress.objects, answers)
        if seen != self._seen:
            self._seen, self._since_s = seen, time.monotonic()
        return time.monotonic() - self._since_s


def _fetch(in_hand: dict[int, Job]) -> bool:
    """Return whether these jobs fetch: only they count what arrives while they run."""
    return any(isinstance(job, (DownloadJob, PrefixJob)) for job in in_hand.values())


def _given_up(job: Job) -> Outcome:
    now_ns, why = time.monotonic_ns(), f"nothing arrived for {MAX_SILENCE_S:.0f} s"
    if isinstance(job, PrefixJob):  # what it fetched before is worth verifying
        return Outcome(job, now_ns, incomplete=f"the client was killed: {why}")
    problem = Explanation(f"the object was given up: {why}", "pull again", concerns_one_object=True)
    return Outcome(job, now_ns, problem=problem)


def _progress_of(processes: WorkerProcesses, jobs: Sequence[Job]) -> Callable[[], Progress]:
    """Reset the counters for these jobs and return a function that reads them."""
    counters, started_s = processes.counters, time.monotonic()
    counters[:] = [0] * len(counters)  # the workers are idle
    total_bytes = sum(job.remote.size_bytes for job in jobs)

    def read() -> Progress:
        done_bytes, done_objects = sum(counters[:-STOP:COUNTERS]), sum(counters[1:-STOP:COUNTERS])
        elapsed_s = time.monotonic() - started_s
        return Progress(done_bytes, done_objects, total_bytes, len(jobs), elapsed_s)

    return read


def _answering(busy: Iterable[Worker], timeout_s: float) -> list[Worker]:
    """Return the workers that have an answer, each once; wait for one if none has."""
    workers = {worker.pid: worker for worker in busy}
    ready = set(wait([worker.connection for worker in workers.values()], timeout_s))
    return [worker for worker in workers.values() if worker.connection in ready]
