# SPDX-License-Identifier: Apache-2.0
"""One pull by one client, as in `writewise pull`, and its cost.

Each pull has new worker processes, whose start is not timed: warm connections and imports would
favour the clients in workers over programs. The host's dirty data is written back first; the files
are deleted afterwards.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import psutil

from profiler.bpf.session import ProfileSession
from profiler.client_bench.client_comparison import ClientRun, ServerShape
from profiler.pull.access import S3Access
from profiler.pull.clients.interface import Client
from profiler.pull.destination import Destination
from profiler.pull.measured import Verify, measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, list_again
from profiler.pull.workers import WorkerPool
from profiler.watch.cpu_clock import CpuClock
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

    `server_pid` is the process whose children serve with `shape`, None if S3 is not on this host.
    Without a `session`, which must be entered, stalls are not measured.
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
            os.sync()  # the whole host, because all dirty data counts against its limits
            listing = _Spent() if client.takes_prefixes else self._list()
            verify = Verify.CHECKSUM if with_checksum else Verify.SIZE
            return self._measure(pool, verify, listing, start_s)

    @property
    def worker_count(self) -> int:
        """The requested number, else one per core, and at most one per object."""
        return min(self.workers or os.cpu_count() or 1, self.objects)

    def _list(self) -> _Spent:
        """Return the time of a listing; a program lists in its own time."""
        client = self.access.make_client()  # not timed, as for the workers
        before = _Spent.now()
        list_again(client, self.location)
        return _Spent.now() - before

    def _measure(
        self, pool: WorkerPool, verify: Verify, listing: _Spent, start_s: float
    ) -> ClientRun:
        cost = _Cost()
        measured = measure_pull(
            pool,
            self.plan,
            self.destination,
            self.session,
            durable=False,
            keep=False,
            verify=verify,
            during=partial(cost.measured, pool, self._server_pids()),
        )
        measured.require_all()
        return ClientRun(
            round=0,
            time_s=listing.elapsed_s + measured.return_s,
            objects=measured.result.objects,
            bytes=measured.result.bytes,
            cpu_s=listing.cpu_s + measured.own_cpu_s + cost.cpu_s,
            peak_rss_bytes=cost.peak_rss_bytes,
            start_s=start_s,
            server_cpu_s=cost.server_cpu_s,
            stalled_share=measured.stalled_share,
        )

    def _server_pids(self) -> tuple[int, ...]:
        if self.server_pid is None:
            return ()
        server = psutil.Process(self.server_pid)
        return (self.server_pid, *(child.pid for child in server.children(recursive=True)))


@dataclass
class _Cost:
    """CPU time and memory of a pull's workers and their programs.

    `server_cpu_s` is None if the server is not on this host.
    """

    cpu_s: float = 0.0
    peak_rss_bytes: int = 0
    server_cpu_s: float | None = None

    @contextmanager
    def measured(self, pool: WorkerPool, server_pids: Sequence[int]) -> Iterator[None]:
        """Measure within the block."""
        sampler = ResourceSampler(tree_below(*pool.pids), waited_for=CpuTime)
        with Ticker([Beat(SAMPLE_INTERVAL_NS, sampler.sample, SAMPLE_SHARE)]):
            server = CpuClock(server_pids)
            yield
            self.server_cpu_s = server.since().cpu_s if server_pids else None
        usage = sampler.take()
        self.cpu_s = (usage.user_ns + usage.system_ns) / 1e9
        self.peak_rss_bytes = usage.rss_bytes


@dataclass(frozen=True)
class _Spent:
    """Elapsed time and CPU time of this thread."""

    elapsed_s: float = 0.0
    cpu_s: float = 0.0

    @classmethod
    def now(cls) -> _Spent:
        """Read both clocks."""
        return cls(time.monotonic(), time.thread_time())

    def __sub__(self, before: _Spent) -> _Spent:
        return _Spent(self.elapsed_s - before.elapsed_s, self.cpu_s - before.cpu_s)
