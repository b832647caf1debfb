"""One pull by one client, as `writewise pull` makes it, with what it cost.

Worker processes are started afresh for each pull, which is not timed: a warm connection or an
import that was made before would favour the clients that live in them over programs. What is dirty
on the host is written back first; the files are deleted afterwards.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import psutil

from profiler.bpf.session import ProfileSession
from profiler.client_bench.results import ClientRun, ServerShape
from profiler.pull.access import S3Access
from profiler.pull.clients.interface import Client
from profiler.pull.destination import Destination, Staging
from profiler.pull.errors import PullError
from profiler.pull.measured import stalled_share
from profiler.pull.results import Failure, PullResult
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, list_plan
from profiler.pull.workers import WorkerPool
from profiler.watch.resources import (
    SAMPLE_INTERVAL_NS,
    SAMPLE_SHARE,
    CpuTime,
    ResourceSampler,
    tree_below,
)
from profiler.watch.ticker import Beat, Ticker


@dataclass(frozen=True)
class ClientBench:
    """Implements `profiler.client_bench.run.RowBench`.

    `server_pid` is the process whose children serve with `shape`, None when S3 is not on this
    host; without a `session` (entered already) no stalls are seen.
    """

    access: S3Access
    location: Location
    plan: PullPlan
    destination: Destination
    settings: TransferSettings
    workers: int | None = None
    server_pid: int | None = None
    shape: ServerShape | None = None
    session: ProfileSession | None = None

    @property
    def objects(self) -> int:
        """See RowBench."""
        return len(self.plan.objects)

    @property
    def bytes(self) -> int:
        """See RowBench."""
        return self.plan.bytes

    def pull(self, client: Client, *, with_checksum: bool) -> ClientRun:
        """See RowBench."""
        began_s = time.monotonic()
        workers = 1 if client.takes_prefixes else self.worker_count
        with WorkerPool(self.access, self.settings, workers, client.make) as pool:
            start_s = time.monotonic() - began_s
            with self.destination.stage(self.plan) as staging:
                os.sync()  # of the whole host: what others left dirty counts against its limits
                listing = _Spent() if client.takes_prefixes else self._list()
                sample, result = self._measure(pool, staging, listing, start_s)
                _require_all(result.failures)
                verified = pool.verify(staging, result, with_checksum=with_checksum, publish=False)
                _require_all(verified.failures)
        return sample

    @property
    def worker_count(self) -> int:
        """As asked, else one per core, never more than objects; a program needs one alone."""
        return min(self.workers or os.cpu_count() or 1, self.objects)

    def _list(self) -> _Spent:
        """What a listing takes; a program's is part of its own time."""
        client = self.access.make_client()  # as those of the workers: before the clock runs
        access = _Ready(self.access.endpoint_url, self.access.sign_requests, client)
        before = _Spent.now()
        list_plan(access, self.location)
        return _Spent.now() - before

    def _measure(
        self, pool: WorkerPool, staging: Staging, listing: _Spent, start_s: float
    ) -> tuple[ClientRun, PullResult]:
        sampler = ResourceSampler(tree_below(*pool.pids), waited_for=CpuTime)
        server_before_s = self._server_cpu_seconds()
        self._follow(pool)
        with Ticker([Beat(SAMPLE_INTERVAL_NS, sampler.sample, SAMPLE_SHARE)]):
            before = _Spent.now()
            result = pool.run(staging)
            own_cpu_s = listing.cpu_s + (_Spent.now() - before).cpu_s
        snapshot, usage = self.session.snapshot() if self.session else None, sampler.take()
        server_s = self._server_cpu_seconds()
        return ClientRun(
            round=0,
            seconds=listing.seconds + result.return_seconds,
            objects=result.objects,
            bytes=result.bytes,
            cpu_seconds=(usage.user_ns + usage.system_ns) / 1e9 + own_cpu_s,
            peak_rss_bytes=usage.rss_bytes,
            start_seconds=start_s,
            server_cpu_seconds=None if server_s is None else server_s - (server_before_s or 0.0),
            stalled_share=stalled_share(snapshot, result, len(pool.pids), pool.writers_at_most),
        ), result

    def _follow(self, pool: WorkerPool) -> None:
        if self.session is not None:
            for pid in pool.pids:
                self.session.track(pid)
            self.session.reset()

    def _server_cpu_seconds(self) -> float | None:
        if self.server_pid is None:
            return None
        server = psutil.Process(self.server_pid)
        times = [each.cpu_times() for each in (server, *server.children(recursive=True))]
        return float(sum(each.user + each.system for each in times))


@dataclass(frozen=True)
class _Spent:
    """Seconds that went by, and CPU time of this thread: that of the sampling is not in it."""

    seconds: float = 0.0
    cpu_s: float = 0.0

    @classmethod
    def now(cls) -> _Spent:
        """The clocks."""
        return cls(time.monotonic(), time.thread_time())

    def __sub__(self, before: _Spent) -> _Spent:
        return _Spent(self.seconds - before.seconds, self.cpu_s - before.cpu_s)


@dataclass(frozen=True)
class _Ready(S3Access):
    """An access whose client is there already."""

    client: Any = None

    def make_client(self, max_connections: int = 0) -> Any:
        """See S3Access."""
        return self.client


def _require_all(failures: tuple[Failure, ...]) -> None:
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise PullError(f"{failures[0].key}: {failures[0].reason}{more}", "see `writewise pull`")
