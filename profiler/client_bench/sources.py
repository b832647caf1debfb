# SPDX-License-Identifier: Apache-2.0
"""The sources of rows: workloads served on this host, or a prefix of a bucket."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from contracts.shared.text import printable
from contracts.shared.units import format_size
from profiler.bpf.session import ProfileSession
from profiler.client_bench.client_comparison import ServerShape
from profiler.client_bench.pulling import ClientBench
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError, explain_local
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from profiler.workloads.catalogue import Workload
from profiler.workloads.folder import remove_leftovers
from profiler.workloads.serving import BUCKET, served


@dataclass(frozen=True)
class Conditions:
    """What all rows share; `workers` None means the workload's number, or one per core."""

    destination: Destination
    settings: TransferSettings
    workers: int | None = None
    session: ProfileSession | None = None


@dataclass(frozen=True)
class BucketSource:
    """A row of the objects below a prefix, or of one key."""

    access: S3Access
    location: Location
    conditions: Conditions

    @property
    def name(self) -> str:
        """The printable address."""
        return printable(str(self.location))

    @contextlib.contextmanager
    def opened(self) -> Iterator[ClientBench]:
        """See Source."""
        given = self.conditions
        yield ClientBench(
            access=self.access,
            location=self.location,
            plan=list_plan(self.access, self.location),
            destination=given.destination,
            settings=given.settings,
            workers=given.workers,
            session=given.session,
        )


@dataclass(frozen=True)
class WorkloadSource:
    """A row of a workload's objects, which a server has while the row is measured."""

    workload: Workload
    conditions: Conditions

    @property
    def name(self) -> str:
        """Name of the workload."""
        return self.workload.name

    @contextlib.contextmanager
    def opened(self) -> Iterator[ClientBench]:
        """See Source. Also raises PullError if the objects do not fit into TMPDIR."""
        workers = self.conditions.workers or self.workload.workers
        with served(self.workload) as server:
            access = S3Access(server.endpoint_url, sign_requests=False)
            bucket = BucketSource(
                access, Location(BUCKET, ""), replace(self.conditions, workers=workers)
            )
            workload = self.workload
            shape = ServerShape(workload.first_byte_latency_ns, workload.rate_bytes_per_s)
            with bucket.opened() as bench:
                yield replace(bench, server_pid=server.pid, shape=shape)


def check_space(workloads: Sequence[Workload], destination: Path) -> None:
    """Raise PullError if the largest row does not fit; nothing is made.

    What killed runs left in TMPDIR is removed first. Only one row exists at a time: its objects in
    TMPDIR, and the files of one pull at the destination.
    """
    made_bytes = max((workload.made_bytes for workload in workloads), default=0)
    pulled_bytes = max((workload.pulled_bytes for workload in workloads), default=0)
    folder = Path(tempfile.gettempdir())
    remove_leftovers()
    try:
        is_one = destination.stat().st_dev == folder.stat().st_dev
        if is_one:
            _require_free(destination, made_bytes + pulled_bytes)
            return
        _require_free(folder, made_bytes)
        _require_free(destination, pulled_bytes)
    except OSError as error:
        raise explain_local(error, "cannot determine the free space") from error


def _require_free(folder: Path, needed_bytes: int) -> None:
    found = os.statvfs(folder)
    free_bytes = found.f_bavail * found.f_frsize
    if needed_bytes > free_bytes:
        raise PullError(
            f"the largest workload needs {format_size(needed_bytes)} in "
            f"{printable(str(folder))}, which has {format_size(free_bytes)} free",
            "free space there, select smaller workloads with --workload, or set TMPDIR",
        )
