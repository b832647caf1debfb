# SPDX-License-Identifier: Apache-2.0
"""A pool of worker processes that are started once and run any number of pulls.

Use a pool only from the thread that started it; the workers die with that thread.
"""

from __future__ import annotations

import functools
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from contracts.shared.text import printable
from profiler.pull.access import S3Access
from profiler.pull.clients.direct import DirectClient
from profiler.pull.clients.interface import AnyClient
from profiler.pull.destination import Staging
from profiler.pull.distribution import Distributed, Distribution
from profiler.pull.errors import Explanation, PullError
from profiler.pull.prefix import collect, one_job_of
from profiler.pull.problem_scope import ProblemScope
from profiler.pull.result import Failure, OnProgress, PullResult, RequestTimes, Verification
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject, UnsafeKeysError
from profiler.pull.verification import SIZE_ONLY
from profiler.pull.worker import COUNTERS, STOP, DownloadJob, Job, Outcome, VerifyJob
from profiler.pull.worker_processes import WorkerProcesses
from profiler.watch.cpu_clock import CpuClock

#: Below this size the MD5 of a file takes less time than a request for another checksum.
_SMALL_BYTES = 8 * 2**20


class WorkerPool:
    """Worker processes that pull; a context manager.

    Each worker makes its own `client_class(access, settings)`. A run that raises ends the workers;
    the next run, or `start`, starts new ones. `worker_count` is one per core by default. Raises
    UsageError for a count out of range.
    """

    def __init__(
        self,
        access: S3Access,
        settings: TransferSettings,
        worker_count: int | None = None,
        client_class: Callable[[S3Access, TransferSettings], AnyClient] = DirectClient,
    ) -> None:
        make_client = functools.partial(client_class, access, settings)
        self._processes = WorkerProcesses(make_client, worker_count)
        self._problem_scope = ProblemScope(access)

    def __enter__(self) -> WorkerPool:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """Pids of the running workers."""
        return tuple(worker.pid for worker in self._processes.running)

    @property
    def writers_at_most(self) -> int | None:
        """Number of worker threads that can write at once; None if a program writes."""
        ready = self._processes.ready
        return None if ready.takes_prefixes else len(self.pids) * ready.jobs_at_once

    def start(self) -> None:
        """Start the workers unless they are running, and wait until each has its client.

        Raises PullError if a client cannot be made or a process cannot be started.
        """
        self._processes.start()

    def close(self) -> None:
        """Let the workers end, and kill those that have not ended within a second."""
        self._processes.close()

    def kill(self) -> None:
        """Kill the workers and wait until they are gone."""
        self._processes.kill()

    def run(
        self,
        staging: Staging,
        on_progress: OnProgress | None = None,
        stop_after_s: float | None = None,
    ) -> PullResult:
        """Fetch every object of the staging's plan into its part file.

        The result holds the failures of single objects, and a problem that ended the pull after
        some objects had arrived. Raises PullError for such a problem (credentials, network) if none
        has arrived, for a failing destination and for a dead worker; PullStoppedError when the run
        takes longer than `stop_after_s`. No worker writes any more after an exception.
        """
        self.start()
        if self._processes.ready.takes_prefixes and staging.plan.objects:
            return self._run_at_once(staging, on_progress, stop_after_s)
        numbers = range(len(staging.plan.objects))
        jobs = [DownloadJob(**_job_fields(staging, number)) for number in numbers]
        clock, started_ns = CpuClock(self.pids), time.monotonic_ns()
        done = self._distribute(jobs, on_progress, stop_after_s)
        used = clock.since()
        arrived = sorted(
            (outcome for outcome in done.outcomes if outcome.problem is None),
            key=lambda outcome: outcome.job.number,
        )
        _raise_unless_worth_keeping(done, arrived)
        last_ns = max((outcome.finished_ns for outcome in done.outcomes), default=started_ns)
        return PullResult(
            started_monotonic_ns=started_ns,
            return_s=(last_ns - started_ns) / 1e9,
            bytes=sum(outcome.job.remote.size_bytes for outcome in arrived),
            arrived=tuple(outcome.job.number for outcome in arrived),
            sizes_bytes=tuple(outcome.job.remote.size_bytes for outcome in arrived),
            failures=staging.plan.refused + _failures(done),
            answers={each.job.number: each.answer for each in arrived if each.answer},
            requests=self._request_times(),
            cpu_s=used.cpu_s,
            host_busy_share=used.host_busy_share,
            ended_by=done.ended_by.problem if done.ended_by else None,
        )

    def _run_at_once(
        self, staging: Staging, on_progress: OnProgress | None, stop_after_s: float | None
    ) -> PullResult:
        """Do what `run` does, with a program that fetches the whole prefix.

        Also raises UnsafeKeysError, because programs may do anything with such keys.
        """
        if staging.plan.refused:
            raise UnsafeKeysError(staging.plan.location, staging.plan.refused)
        job, started_ns = one_job_of(staging), time.monotonic_ns()
        (outcome,) = self._distribute([job], on_progress, stop_after_s).outcomes
        if outcome.problem is not None:
            raise outcome.problem.as_error()
        return collect(staging, outcome, started_ns)

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
        """Verify in parallel what arrived; with `publish` each good file gets its final name.

        Without `with_checksum` only sizes are compared with the listing, unless a program has
        failed. `from_device` reads the files from the device. If S3 no longer answers, its earlier
        answers and the listing are used. Raises PullError for a failing destination and for a dead
        worker.
        """
        self.start()
        wanted: dict[str, Any] = {
            "with_checksum": with_checksum or bool(result.incomplete),
            "from_device": from_device,
            "unproven": result.incomplete or None,
        }
        fields = [_job_fields(staging, number) for number in result.arrived]
        for each in fields:
            each["answer"] = result.answers.get(each["number"])
        jobs = [VerifyJob(**each, **wanted, publish=publish) for each in fields]
        started_s = time.monotonic()
        outcomes = self._verify_all(jobs, result.ended_by, on_progress)
        methods = Tally(outcome.method for outcome in outcomes if outcome.problem is None)
        return Verification(
            methods,
            _failures(Distributed(outcomes)),
            time.monotonic() - started_s,
            cpu_s=sum(outcome.cpu_ns for outcome in outcomes) / 1e9,
            bytes=sum(outcome.job.remote.size_bytes for outcome in outcomes),
        )

    def _verify_all(
        self, jobs: list[VerifyJob], ended_by: Explanation | None, on_progress: OnProgress | None
    ) -> list[Outcome]:
        """Return an outcome for each job; once S3 no longer answers, it is not asked again."""
        kept: list[Outcome] = []
        if ended_by is None:
            done = self._distribute(jobs, on_progress)
            if done.ended_by is None:
                return done.outcomes
            _raise_unless_worth_keeping(done, done.outcomes)
            ended_by = done.ended_by.problem
            kept = [outcome for outcome in done.outcomes if not _is_hopeless(outcome)]
        known = {outcome.job.number for outcome in kept}
        rest = [replace(job, unasked=ended_by) for job in jobs if job.number not in known]
        done = self._distribute(rest, on_progress)
        _raise_unless_worth_keeping(done, ())
        return kept + done.outcomes

    def same_as_published(
        self, staging: Staging, numbers: Sequence[int], on_progress: OnProgress | None = None
    ) -> tuple[int, ...]:
        """Return those of the plan's `numbers` whose published file matches S3's checksum.

        Files whose size alone can be compared are not among them. Small files are compared with the
        listing's ETag first, which saves most of them a request. Raises PullError.
        """
        self.start()
        small = [each for each in numbers if staging.plan.objects[each].size_bytes < _SMALL_BYTES]
        same = self._same(staging, small, on_progress, by_listing=True)
        rest = [each for each in numbers if each not in same]
        return tuple(sorted(same | self._same(staging, rest, on_progress, by_listing=False)))

    def _same(
        self,
        staging: Staging,
        numbers: Sequence[int],
        on_progress: OnProgress | None,
        *,
        by_listing: bool,
    ) -> set[int]:
        """Return those that match the object's checksum, from the listing or by asking S3."""
        fields = [_job_fields(staging, number) for number in numbers]
        for each in fields:
            remote: RemoteObject = each["remote"]
            each["part_name"] = remote.file_name
            if by_listing:
                each["answer"] = {"ContentLength": remote.size_bytes, "ETag": remote.etag}
        jobs = [VerifyJob(**each, with_checksum=True, publish=False) for each in fields]
        done = self._distribute(jobs, on_progress)
        _raise_unless_worth_keeping(done, ())
        same = (each for each in done.outcomes if not each.problem and each.method != SIZE_ONLY)
        return {outcome.job.number for outcome in same}

    def _distribute(
        self,
        jobs: Sequence[Job],
        on_progress: OnProgress | None,
        stop_after_s: float | None = None,
    ) -> Distributed:
        return Distribution(self._processes, jobs, on_progress, self._problem_scope).run(
            stop_after_s
        )

    def _request_times(self) -> RequestTimes | None:
        """Return the times of the last run's requests; None if the client does not report them."""
        counters = self._processes.counters
        count, first_byte_ns, body_ns, write_ns, repeated_ns, slow_downs = (
            sum(counters[slot:-STOP:COUNTERS]) for slot in range(2, COUNTERS)
        )
        if not count:
            return None
        return RequestTimes(
            count, first_byte_ns / 1e9, body_ns / 1e9, write_ns / 1e9, repeated_ns / 1e9, slow_downs
        )


def _job_fields(staging: Staging, number: int) -> dict[str, Any]:
    plan = staging.plan
    return {
        "number": number,
        "bucket": plan.location.bucket,
        "remote": plan.objects[number],
        "root_path": staging.root_path,
        "part_name": staging.part_name(number),
    }


def _is_hopeless(outcome: Outcome) -> bool:
    return outcome.problem is not None and not outcome.problem.concerns_one_object


def _raise_unless_worth_keeping(done: Distributed, arrived: Sequence[Outcome]) -> None:
    """Raise PullError for a problem that concerns all objects, unless some `arrived` safely."""
    if done.ended_by is None or done.ended_by.problem is None:
        return
    problem = done.ended_by.problem
    if problem.is_of_destination or not arrived:
        key = printable(done.ended_by.job.remote.key)
        raise PullError(f"{key}: {problem.message}", problem.hint)


def _failures(done: Distributed) -> tuple[Failure, ...]:
    """Return what failed, in the plan's order, with the reasons."""
    problems = [(each.job, each.problem) for each in done.outcomes if each.problem is not None]
    if done.ended_by is not None and done.ended_by.problem is not None:
        problems += [(job, done.ended_by.problem) for job in done.unanswered]
    return tuple(
        Failure(printable(job.remote.key), problem.message)
        for job, problem in sorted(problems, key=_plan_order)
    )


def _plan_order(problem: tuple[Job, Explanation]) -> int:
    return problem[0].number
