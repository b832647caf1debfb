"""What a trial pulls with: fresh worker processes, the real destination, a host at rest.

Unlike the post's sample: the destination is the volume that is asked about, what is dirty on the
host is written back before each pull, the files of a pull are deleted after it (so that their
pages do not take the next one's memory), and what arrived is compared with S3's checksum in the
first pull of each point, by size in the others. Workers start before the clock does.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone

from contracts.shared.units import format_size
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import by_name
from profiler.pull.cpu_time import CpuClock, CpuUse
from profiler.pull.destination import Destination
from profiler.pull.measured import Verify, measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import PullPlan
from profiler.pull.workers import WorkerPool
from profiler.tune.limits import Load
from profiler.tune.space import Point, client_at, held_bytes, settings_at
from profiler.tune.trial import NotTriedError, Pull, PullOnce
from sysctl.host.sysctls import read_available_bytes, read_writeback
from sysctl.host.system import System

#: What waits in the workers' memory may take this part of what is available.
_MEMORY_SHARE = 0.5


@dataclass
class TransferBench:
    """Implements `profiler.tune.trial.Bench` by real pulls of a plan.

    With `durable` a pull's time ends when it is on the device, else when the last object returned.
    """

    access: S3Access
    plan: PullPlan
    destination: Destination
    base: TransferSettings = field(default_factory=TransferSettings)
    workers: int | None = None
    durable: bool = False
    system: System = field(default_factory=System)

    @property
    def largest_object_bytes(self) -> int:
        """The size of the plan's largest object."""
        return max(remote.size_bytes for remote in self.plan.objects)

    @property
    def load(self) -> Load:
        """What each trial pulls, and by how many workers."""
        sizes = Counter(remote.size_bytes for remote in self.plan.objects)
        return Load(sizes, self.worker_count)

    @property
    def worker_count(self) -> int:
        """Worker processes: as asked, else one per core, never more than objects."""
        return min(self.workers or os.cpu_count() or 1, len(self.plan.objects))

    @contextlib.contextmanager
    def opened(self, point: Point) -> Iterator[PullOnce]:
        """See Bench. Raises NotTriedError for what may need more memory than there is."""
        settings = settings_at(point, self.base)
        self._check_memory(settings)
        make_client = by_name(client_at(point)).make
        with WorkerPool(self.access, settings, self.worker_count, make_client) as pool:
            is_verified = False

            def pull_once(stop_after_s: float | None) -> Pull:
                nonlocal is_verified
                pull = self._pull(pool, stop_after_s, with_checksum=not is_verified)
                is_verified = True
                return pull

            yield pull_once

    def context(self) -> dict[str, object]:
        """Where and on what it is measured, for the record. Raises HostError."""
        import boto3
        import s3transfer

        return {
            "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "source": str(self.plan.location),
            "objects": len(self.plan.objects),
            "bytes": self.plan.bytes,
            "destination": str(self.destination.path),
            "workers": self.worker_count,
            "timed_until": "durable" if self.durable else "return",
            "cpus": os.cpu_count(),
            "available_bytes": read_available_bytes(self.system),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "boto3": boto3.__version__,
            "s3transfer": s3transfer.__version__,
            "writeback": read_writeback(self.system),
        }

    def _check_memory(self, settings: TransferSettings) -> None:
        share_bytes = -(-self.plan.bytes // self.worker_count)  # of several objects at once
        held = held_bytes(settings, share_bytes) * self.worker_count
        available_bytes = read_available_bytes(self.system)
        if held > available_bytes * _MEMORY_SHARE:
            raise NotTriedError(
                f"up to {format_size(held)} may wait in memory, of which "
                f"{format_size(available_bytes)} is available",
                "lower io_chunksize or max_io_queue",
            )

    def _pull(self, pool: WorkerPool, stop_after_s: float | None, *, with_checksum: bool) -> Pull:
        used = CpuUse(None, None)

        @contextlib.contextmanager
        def timed() -> Iterator[None]:
            nonlocal used
            clock = CpuClock(pool.pids)
            yield
            used = clock.since()

        pool.start()
        os.sync()  # of the whole host: what others left dirty counts against the same limits
        measured = measure_pull(
            pool,
            self.plan,
            self.destination,
            None,
            durable=self.durable,
            keep=False,
            verify=Verify.CHECKSUM if with_checksum else Verify.SIZE,
            stop_after_s=stop_after_s,
            meanwhile=timed,
        )
        measured.require_all()
        seconds = measured.durable_s or measured.return_s
        busy = used.host_busy_share or 0.0
        return Pull(seconds, measured.result.bytes, used.cpu_s or 0.0, busy)
