# SPDX-License-Identifier: Apache-2.0
"""The cost of 100,000 keys: listing and plan, pull, and the check that all is already there.

One object of 100 bytes under 100,000 keys in 100 directories, pulled to memory by two worker
processes from an unshaped server on this host, which shares the cores. Run anywhere:
`python -m tests.bench.bench_many_keys`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.measured import measure_pull
from profiler.pull.resume import find_missing
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from profiler.pull.workers import WorkerPool

KEYS = 100_000
WORKERS = 2
MIB = 2**20


def peak_mib(pids: Iterable[int]) -> float:
    """Return the sum of the processes' peak resident sizes (VmHWM, proc(5))."""
    lines = (
        line
        for pid in pids
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return sum(int(line.split()[1]) * 1024 for line in lines) / MIB


def show(what: str, seconds: float, pids: Iterable[int] = ()) -> None:
    print(
        f"{what:30}{seconds:8.1f} s{KEYS / seconds:8.0f} keys/s"
        f"   peak {peak_mib([os.getpid()]):4.0f} MiB"
        f"{peak_mib(pids):6.0f} MiB in workers",
        flush=True,
    )


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root, destination = Path(folder, "objects"), Path(folder, "destination")
        root.mkdir()
        destination.mkdir()
        (root / "one").write_bytes(os.urandom(100))
        keys = {f"{number % 100:02}/{number:06}": "one" for number in range(KEYS)}
        with S3Server(
            root, first_byte_latency_s=None, rate_bytes_per_s=None, index={"bench": keys}
        ) as server:
            access = S3Access(server.endpoint_url, sign_requests=False)
            began_s = time.monotonic()
            plan = list_plan(access, Location("bench", ""))
            show("listing and plan", time.monotonic() - began_s)
            with WorkerPool(access, TransferSettings(), WORKERS) as pool:
                measured = measure_pull(pool, plan, Destination(destination), None)
                if measured.failures or measured.result.objects != KEYS:
                    raise SystemExit("not all objects arrived")
                show("pull until return", measured.return_s, pool.pids)
                show("verified, with final names", measured.verification.elapsed_s, pool.pids)
                began_s = time.monotonic()
                missing = find_missing(pool, plan, Destination(destination)).missing
                if missing.objects:
                    raise SystemExit("a second pull would fetch what is there")
                show("second pull: nothing to fetch", time.monotonic() - began_s, pool.pids)


if __name__ == "__main__":
    main()
