# SPDX-License-Identifier: Apache-2.0
"""The merge of 100,000 records, of which 1 % are broken, and the report on them.

Records are made with the model's times and noise for 200 classes (`tests.unit.fleet_records`) and
written as files. The commands run as processes of their own, on two cores.
`python -m tests.bench.bench_fleet [RECORDS]`.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.fleet.writing import name_of
from tests.bench.figures import host_line, print_table
from tests.unit.fleet_records import RECORD, made_classes, made_records

RECORDS, CLASSES, CORES = 100_000, 200, 2
MOST_INGEST_S, MOST_REPORT_S, MOST_BYTES = 120.0, 5.0, 2**30


def changed(name: str, value: object) -> bytes:
    """Return a record with another value of a field."""
    text = json.dumps({**RECORD.to_json(), name: value})
    return gzip.compress(f"{text}\n".encode())


#: The kinds of broken files.
BROKEN: tuple[Callable[[bytes], bytes], ...] = (
    lambda good: good[: len(good) // 2],
    lambda good: good[:-8] + bytes(8),
    lambda good: b"",
    lambda good: b"not gzip",
    lambda good: gzip.compress(bytes(20 * 2**20), 1),
    lambda good: bytes(2**20 + 1),
    lambda good: gzip.compress(b"{}\n"),
    lambda good: changed("version", 2),
    lambda good: changed("seconds", float("nan")),
    lambda good: changed("writer_ns", -1),
    lambda good: changed("writer_ns", 10**40),
    lambda good: changed("node", "../../etc/passwd"),
    lambda good: changed("class_key", "x'; DROP TABLE records; --"),
    lambda good: gzip.compress(b"[" * 200_000 + b"\n"),
)


def fill(folder: Path, count: int) -> set[str]:
    """Write the files; return the names of the broken ones."""
    rng = random.Random(7)
    broken: set[str] = set()
    for number, record in enumerate(made_records(made_classes(CLASSES), count)):
        path, packed = folder / name_of(record), record.packed()
        if rng.random() < 0.01:
            packed = BROKEN[len(broken) % len(BROKEN)](packed)
            broken.add(str(path.relative_to(folder)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed)
        if number % 10_000 == 0:
            print(f"{number} written", file=sys.stderr, flush=True)
    return broken


@dataclass(frozen=True)
class Run:
    """The time and the CPU time of a command in s, the peak of its memory, and its document."""

    time_s: float
    cpu_s: float
    peak_bytes: int
    document: dict[str, Any]


def timed(*words: str) -> Run:
    """Run a command of Writewise."""
    argv = [sys.executable, "-m", "profiler.cli.main", "fleet", *words, "--json"]
    began = time.monotonic()
    child = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{words[0]} failed")
    took_s, cpu_s = time.monotonic() - began, used.ru_utime + used.ru_stime
    return Run(took_s, cpu_s, used.ru_maxrss * 1024, json.loads(output))


def row(name: str, run: Run, most_s: float) -> list[str]:
    """Return the figures of a command; the goal is of its time on a host without other work."""
    is_reached = run.time_s <= most_s and run.peak_bytes <= MOST_BYTES
    figures = (f"{run.time_s:.1f}", f"{run.cpu_s:.1f}", f"{most_s:.0f}")
    return [name, *figures, f"{run.peak_bytes / 2**20:.0f}", str(is_reached)]


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        source, tables = Path(scratch, "records"), Path(scratch, "tables")
        source.mkdir()
        broken = fill(source, count)
        ingested, reported = timed("ingest", str(source), str(tables)), timed("report", str(tables))
        size = sum(path.stat().st_size for path in tables.glob("*.parquet"))
    merged, report = ingested.document, reported.document
    print(host_line("Records on a disk"))
    print_table(
        ["Command", "Time, s", "CPU time, s", "Goal, s", "Peak memory, MiB", "Reached"],
        [row("ingest", ingested, MOST_INGEST_S), row("report", reported, MOST_REPORT_S)],
    )
    named = {each["file"] for each in merged["broken"]}
    print(
        f"broken: {len(broken)}, named: {len(named & broken)}, named wrongly: {len(named - broken)}"
    )
    print(f"records: {merged['records']} of {count}, classes: {len(report['classes'])}")
    print(f"Parquet: {size / 2**20:.0f} MiB; load average: {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
