# SPDX-License-Identifier: Apache-2.0
"""The lab's S3 server: its unshaped speed, its cost, and how exact its shape is.

boto3 pulls to memory with two worker processes. The objects are in memory as well, so no disk
takes part. Client and server share the host's cores. Medians of three pulls. Run anywhere:
`python -m tests.bench.bench_s3_server`.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from profiler.lab.s3_objects import make_objects
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.measured import Verify, measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from profiler.pull.workers import WorkerPool

MIB, GIB = 2**20, 2**30
PULLS = 3
WORKERS = 2
#: Both workers' ten connections at 90 MB/s each: what the shape alone would allow.
SHAPED_CEILING_MIB_PER_S = WORKERS * 10 * 90e6 / MIB


@dataclass(frozen=True)
class Figures:
    """One pull's rate, and CPU time per GiB of the server and of the workers."""

    rate_mib_per_s: float
    server_cpu_s_per_gib: float
    client_cpu_s_per_gib: float


def cpu_s(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system for each in times)


def pull(server: S3Server, pool: WorkerPool, destination: Path) -> Figures:
    plan = list_plan(S3Access(server.endpoint_url), Location("bench", ""))
    servers = [child.pid for child in psutil.Process(server.pid).children()]
    clients = list(pool.pids)
    server_s, client_s = cpu_s(servers), cpu_s(clients)
    measured = measure_pull(
        *(pool, plan, Destination(destination), None), durable=False, keep=False, verify=Verify.SIZE
    )
    if measured.failures:
        raise SystemExit(measured.failures[0].reason)
    gib = measured.result.bytes / GIB
    return Figures(
        measured.result.bytes / MIB / measured.return_s,
        (cpu_s(servers) - server_s) / gib,
        (cpu_s(clients) - client_s) / gib,
    )


def bench(name: str, count: int, size_bytes: int, *, shaped: bool) -> None:
    shape = {} if shaped else {"first_byte_latency_s": None, "rate_bytes_per_s": None}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root, destination = Path(folder, "root"), Path(folder, "destination")
        (root / "bench").mkdir(parents=True)
        destination.mkdir()
        make_objects(root / "bench", count=count, size_bytes=size_bytes, distinct=2)
        with S3Server(root, **shape) as server:
            access = S3Access(server.endpoint_url)
            with WorkerPool(access, TransferSettings(), WORKERS) as pool:
                pull(server, pool, destination)  # warms code and connections
                figures = [pull(server, pool, destination) for _ in range(PULLS)]
    print(
        f"{name:28}"
        f"{median(each.rate_mib_per_s for each in figures):8.0f} MiB/s"
        f"{median(each.server_cpu_s_per_gib for each in figures):8.2f} server CPU-s/GiB"
        f"{median(each.client_cpu_s_per_gib for each in figures):8.2f} client CPU-s/GiB"
    )


def main() -> None:
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    bench("unshaped, 8 x 128 MiB", 8, 128 * MIB, shaped=False)
    bench("shaped, 4 x 128 MiB", 4, 128 * MIB, shaped=True)
    bench("shaped, 40 x 48 MiB", 40, 48 * MIB, shaped=True)
    bench("shaped, 100 x 1 MiB", 100, MIB, shaped=True)
    print(f"the shape alone allows {SHAPED_CEILING_MIB_PER_S:.0f} MiB/s")


if __name__ == "__main__":
    main()
