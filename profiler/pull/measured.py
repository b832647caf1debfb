# SPDX-License-Identifier: Apache-2.0
"""One measured pull, for `pull`, `sweep`, `transfer tune` and `bench-clients`."""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from contracts.shared.units import counted
from profiler.bpf.session import ProfileSession, ProfileSnapshot
from profiler.pull.destination import Destination
from profiler.pull.durability import sync_file_system
from profiler.pull.errors import PullError, explain_local
from profiler.pull.result import Failure, Progress, PullResult, Verification
from profiler.pull.source import PullPlan
from profiler.pull.workers import WorkerPool
from profiler.watch.causes import WhyInputs
from profiler.watch.volumes import EbsVolumes, VolumeUse
from profiler.watch.watch import Watch
from sysctl.evidence.over_limit import OverLimit, most_limited


class Verify(enum.Enum):
    """What is compared with S3 after an object has arrived.

    FULL compares the checksum of what the device returns, CHECKSUM that of what may still be in the
    page cache, SIZE only the size.
    """

    FULL = "full"
    CHECKSUM = "checksum"
    SIZE = "size"


class Phase(enum.Enum):
    """What a measured pull is doing."""

    PULL = "pulling"
    SYNC = "waiting for the device"
    VERIFY = "verifying"


#: Called with the phase and its progress; a sync has none, so it is reported once, with None.
OnPhase = Callable[[Phase, "Progress | None"], None]


@dataclass(frozen=True)
class PullMeasurement:
    """How long one pull took, and what was counted.

    `durable_s` is the time from the start until syncfs returned, None if that was not requested.
    `snapshot` covers the pull without sync and verification, None without a session. `why` is the
    input for the explanation of its writes. `writers_at_most` is how many threads could write at
    once, None if a program wrote. `own_cpu_s` is this thread's CPU time, mostly for handing out
    objects.
    """

    result: PullResult
    durable_s: float | None
    verification: Verification
    snapshot: ProfileSnapshot | None
    worker_count: int
    why: WhyInputs | None = None
    writers_at_most: int | None = None
    own_cpu_s: float = 0.0

    @property
    def return_s(self) -> float:
        """Time from the start of the pull until the last object was fetched."""
        return self.result.return_s

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Objects that did not arrive, then those that differ from what S3 has."""
        return self.result.failures + self.verification.failures

    def require_all(self) -> None:
        """Raise PullError if an object did not arrive or differs from what S3 has."""
        if self.failures:
            first, objects = self.failures[0], self.result.objects + len(self.result.failures)
            message = f"{len(self.failures)} of {counted(objects, 'object')} failed"
            raise PullError(
                f"{message}, the first of them {first.key}: {first.reason}",
                "run `writewise pull` with the same source: it lists every failure",
            )

    @property
    def stalled_share(self) -> float | None:
        """Share of the writing threads' time (0 to 1) spent asleep in dirty throttling.

        None without a session, or if nothing was pulled.
        """
        threads = self.writing_threads
        if self.snapshot is None or threads is None or not self.return_s:
            return None
        return self.snapshot.stall.total_ns / (self.return_s * 1e9 * threads)

    @property
    def over_limit(self) -> OverLimit | None:
        """The time over the limits of the most limited EBS volume; None if it is unknown."""
        known = (use.over_limit for use in self._volumes)
        return most_limited(each for each in known if each)

    @property
    def over_limit_problem(self) -> str | None:
        """Why that is unknown for an EBS volume; None if it is known, or there is none."""
        problems = [f"{use.volume.disk}: {use.problem}" for use in self._volumes if use.problem]
        return "; ".join(problems) or None

    @property
    def _volumes(self) -> tuple[VolumeUse, ...]:
        return self.why.volumes if self.why else ()

    @property
    def writing_threads(self) -> int | None:
        """Number of threads that could write at a time and did write; None without a session."""
        if self.snapshot is None:
            return None
        return _writing_threads(
            self.snapshot.writers, self.writers_at_most, self.worker_count, self.result.objects
        )


def _writing_threads(seen: int, at_most: int | None, workers: int, objects: int) -> int:
    """Return how many threads could write at a time, of the `seen` that wrote at all.

    Each of the `workers` has at least one. At most `at_most` write at once, so threads that
    replaced others count once; None is for a program, which a single worker runs. A file has one
    writer at a time, so there are at most as many writers as `objects`.
    """
    at_once = max(1, seen) if at_most is None else max(workers, min(seen, at_most))
    return max(1, min(at_once, objects))


def measure_pull(
    pool: WorkerPool,
    plan: PullPlan,
    destination: Destination,
    session: ProfileSession | None,
    *,
    durable: bool = True,
    keep: bool = True,
    verify: Verify = Verify.CHECKSUM,
    on_phase: OnPhase | None = None,
    stop_after_s: float | None = None,
    during: Callable[[], AbstractContextManager[None]] = nullcontext,
    volumes: EbsVolumes | None = None,
) -> PullMeasurement:
    """Pull `plan` to `destination`, wait for the device if `durable`, verify, publish if `keep`.

    `session` is already entered and counts the pool's workers from now on; one session and one pool
    serve any number of pulls. Without `keep` the files are deleted at the end, which also discards
    their dirty pages. The context `during` lasts from before the pull until the data is durable, if
    that was requested. With a session the limits of `volumes`, which are open, are observed too.
    Raises PullError (also if the pull ends early and its files are not kept), and PullStoppedError
    when the pull takes longer than `stop_after_s`. No unpublished file is left.
    """
    show = on_phase or _show_nothing
    with destination.stage(plan) as staging:
        pool.start()
        with during():
            with _watched(session, pool, volumes) as watch:
                before_s = time.thread_time()
                result = pool.run(staging, lambda done: show(Phase.PULL, done), stop_after_s)
                own_cpu_s = time.thread_time() - before_s
                snapshot = session.snapshot() if session is not None else None
            if result.ended_by is not None and not keep:
                raise result.ended_by.as_error()
            why = watch.inputs(snapshot) if watch and snapshot else None
            worker_count, writers_at_most = len(pool.pids), pool.writers_at_most
            durable_s = None
            if durable:
                show(Phase.SYNC, None)
                _sync(staging.root_fd)
                durable_s = (time.monotonic_ns() - result.started_monotonic_ns) / 1e9
        verification = pool.verify(
            staging,
            result,
            with_checksum=verify is not Verify.SIZE,
            from_device=verify is Verify.FULL,
            publish=keep,
            on_progress=lambda progress: show(Phase.VERIFY, progress),
        )
        if durable and keep:
            _sync(staging.root_fd)  # the renames, a few blocks of the journal: not timed
    return PullMeasurement(
        result, durable_s, verification, snapshot, worker_count, why, writers_at_most, own_cpu_s
    )


@contextlib.contextmanager
def _watched(
    session: ProfileSession | None, pool: WorkerPool, volumes: EbsVolumes | None
) -> Iterator[Watch | None]:
    """Count the pool's calls and watch the host within the block."""
    if session is None:
        yield None
        return
    for pid in pool.pids:
        session.track(pid)
    with Watch(session, volumes.recorder() if volumes else None) as watch:
        session.reset()
        yield watch


def _sync(descriptor: int) -> None:
    try:
        sync_file_system(descriptor)
    except OSError as error:
        raise explain_local(error, "the destination could not be synced") from error


def _show_nothing(phase: Phase, progress: Progress | None) -> None:
    pass
