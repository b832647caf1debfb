# SPDX-License-Identifier: Apache-2.0
"""What the probes cost a pull of 2 GiB: pairs with and without them, each first in turn.

boto3 pulls from the lab's S3 server to tmpfs, so that no device limits it: with the lab's shape of
S3 (latency and rate of each connection), and without, where client and server use all of the
host's cores and every cycle counts. Run as root: `python -m tests.bench.bench_pull_cost [PAIRS]`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contracts.loading import load_contract
from profiler.bpf.session import ProfileSession
from profiler.lab.s3_objects import make_objects
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.measured import Verify, measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, list_plan
from profiler.pull.workers import WorkerPool
from tests.bench.attachments import wait_until_detached
from tests.bench.figures import (
    differences,
    estimate,
    host_line,
    print_goal,
    print_table,
    rounds_wanted,
)

PAIRS = 20
OBJECTS = 40
OBJECT_BYTES = 2**31 // OBJECTS
WORKERS = 2
GOAL_PERCENT = 0.5
SHAPES = {
    "shaped like S3": {},
    "unshaped": {"first_byte_latency_s": None, "rate_bytes_per_s": None},
}


class Bench:
    """A server, a pool of workers and an empty destination; `pull_s()` can be repeated."""

    def __init__(self, pool: WorkerPool, plan: PullPlan, folder: Path) -> None:
        self._pool, self._plan, self._folder = pool, plan, folder

    def pull_s(self, profiled: bool) -> float:
        """Return the time of a pull in seconds; wait first until older probes are detached."""
        wait_until_detached()
        if not profiled:
            return self._pull_s(None)
        with ProfileSession(load_contract(None)) as session:
            return self._pull_s(session)

    def _pull_s(self, session: ProfileSession | None) -> float:
        measured = measure_pull(
            *(self._pool, self._plan, Destination(self._folder), session),
            durable=False,
            keep=False,
            verify=Verify.SIZE,
        )
        assert not measured.failures, measured.failures[0].reason
        if measured.snapshot is not None:
            moved = measured.snapshot.stats[0].bytes
            assert moved >= measured.result.bytes, "the probes did not see all of the pull"
            assert measured.snapshot.losses.total == 0, measured.snapshot.losses
        return measured.return_s


@contextlib.contextmanager
def bench(shape: dict[str, None]) -> Iterator[Bench]:
    """Set up a bench with everything in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root, destination = Path(folder, "root"), Path(folder, "destination")
        (root / "bench").mkdir(parents=True)
        destination.mkdir()
        make_objects(root / "bench", count=OBJECTS, size_bytes=OBJECT_BYTES, distinct=2)
        with S3Server(root, **shape) as server:
            access = S3Access(server.endpoint_url)
            plan = list_plan(access, Location("bench", ""))
            with WorkerPool(access, TransferSettings(), WORKERS) as pool:
                yield Bench(pool, plan, destination)


def pairs(shape: dict[str, None], count: int) -> tuple[list[float], list[float]]:
    """Return the seconds without and with probes, of each pair."""
    without_s, with_s = [], []
    with bench(shape) as pulls:
        pulls.pull_s(profiled=False)  # warms code and connections
        for number in range(count):
            order = (False, True) if number % 2 else (True, False)
            times = {profiled: pulls.pull_s(profiled) for profiled in order}
            without_s.append(times[False])
            with_s.append(times[True])
    return without_s, with_s


def main() -> None:
    """Measure with both shapes, and report."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    count = rounds_wanted(PAIRS)
    rows, apart = [], {}
    for name, shape in SHAPES.items():
        without_s, with_s = pairs(shape, count)
        percent = differences(with_s, without_s, lambda own, bare: (own / bare - 1) * 100)
        apart[name] = estimate(percent)
        seconds = (estimate(values).text("{:.2f}") for values in (without_s, with_s))
        rows.append((name, *seconds, apart[name].text("{:+.2f}")))
    print(host_line(f"A pull of {OBJECTS * OBJECT_BYTES / 2**30:.0f} GiB to tmpfs, {count} pairs"))
    print()
    print_table(("", "without probes, s", "with probes, s", "apart, %"), rows)
    for name, difference in apart.items():
        excess = difference.magnitude().less(GOAL_PERCENT)
        print_goal(f"{name}: < {GOAL_PERCENT} % apart, interval included", excess, "%", "{:+.2f}")


if __name__ == "__main__":
    main()
