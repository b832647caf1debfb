# SPDX-License-Identifier: Apache-2.0
"""What TAR shards gain over small objects, compared with what a pull's evidence predicts.

The workload `small-files-8000x128KiB` at a quarter of its objects, and the same files in ten TAR
shards, pulled to memory in turns by two worker processes: medians of three. Client and server
share the host's cores. Run anywhere: `python -m tests.bench.bench_sharding`.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from statistics import median

from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.evidence import gather
from profiler.pull.measured import PullMeasurement, Verify, measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from profiler.pull.workers import WorkerPool
from profiler.workloads.catalogue import Workload, find_workload
from profiler.workloads.serving import BUCKET, served

WORKERS = 2
PULLS = 3
PART_OF_OBJECTS = 4
MIB = 2**20


def scaled(name: str) -> Workload:
    workload = find_workload(name)
    return dataclasses.replace(workload, objects=workload.objects // PART_OF_OBJECTS)


def pull(server: S3Server, pool: WorkerPool, destination: Path) -> PullMeasurement:
    plan = list_plan(S3Access(server.endpoint_url, sign_requests=False), Location(BUCKET, ""))
    measured = measure_pull(
        *(pool, plan, Destination(destination), None), durable=False, keep=False, verify=Verify.SIZE
    )
    if measured.failures:
        raise SystemExit(measured.failures[0].reason)
    return measured


def line(name: str, pulls: list[PullMeasurement]) -> float:
    """Print one row; return the median time to return in seconds."""
    seconds = median(each.return_s for each in pulls)
    found = [gather(each.result, WORKERS, None) for each in pulls]
    shares = [each.first_byte_share for each in found if each]
    limits = ", ".join(sorted({each.limit.name.lower() for each in found if each}))
    result = pulls[0].result
    print(
        f"{name:24}{result.objects:7} objects{seconds:8.2f} s"
        f"{result.bytes / MIB / seconds:8.0f} MiB/s   {median(shares):4.0%} before first bytes"
        f"   held up by {limits}"
    )
    return seconds


def main() -> None:
    plain = scaled("small-files-8000x128KiB")
    shards = scaled("small-files-8000x128KiB-in-10-tar")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tempfile.tempdir = folder  # the objects are in memory, too: no disk takes part
        destination = Path(folder, "destination")
        destination.mkdir()
        with served(plain) as small, served(shards) as large:
            pools = [
                WorkerPool(
                    S3Access(server.endpoint_url, sign_requests=False), TransferSettings(), WORKERS
                )
                for server in (small, large)
            ]
            with pools[0], pools[1]:
                pairs = [
                    (pull(small, pools[0], destination), pull(large, pools[1], destination))
                    for _ in range(PULLS + 1)
                ][1:]  # the first warms code and connections
    before = line(f"{plain.objects} x 128 KiB", [pair[0] for pair in pairs])
    after = line(f"{shards.shards} TAR shards", [pair[1] for pair in pairs])
    bounds = [
        evidence.first_byte_share
        for pair in pairs
        if (evidence := gather(pair[0].result, WORKERS, None)) is not None
    ]
    print(f"saved {1 - after / before:.0%} of the time; estimated: {median(bounds):.0%}")


if __name__ == "__main__":
    main()
