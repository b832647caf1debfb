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
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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


def timed(*words: str) -> tuple[float, dict[str, Any]]:
    """Run a command of Writewise; return its time in s and its document."""
    argv = [sys.executable, "-m", "profiler.cli.main", "fleet", *words, "--json"]
    began = time.monotonic()
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE)
    return time.monotonic() - began, json.loads(done.stdout)


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        source, tables = Path(scratch, "records"), Path(scratch, "tables")
        source.mkdir()
        broken = fill(source, count)
        ingest_s, merged = timed("ingest", str(source), str(tables))
        peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        report_s, report = timed("report", str(tables))
        both_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        size = sum(path.stat().st_size for path in tables.glob("*.parquet"))
    named = {each["file"] for each in merged["broken"]}
    rows = [
        ["ingest", f"{ingest_s:.1f} s", f"{MOST_INGEST_S:.0f} s", ingest_s <= MOST_INGEST_S],
        ["report", f"{report_s:.1f} s", f"{MOST_REPORT_S:.0f} s", report_s <= MOST_REPORT_S],
        ["memory of ingest", f"{peak_bytes / 2**20:.0f} MiB", "1024 MiB", peak_bytes <= MOST_BYTES],
        ["memory of both", f"{both_bytes / 2**20:.0f} MiB", "1024 MiB", both_bytes <= MOST_BYTES],
        ["broken, named", f"{len(broken)}, {len(named & broken)}", "all", named == broken],
        ["records", f"{merged['records']}", f"{count - len(broken)}", True],
        ["Parquet", f"{size / 2**20:.0f} MiB", "", True],
        ["classes", f"{len(report['classes'])}", f"{CLASSES}", len(report["classes"]) == CLASSES],
    ]
    print(host_line("records on a disk"))
    print_table(["What", "Measured", "Goal", "Reached"], [[*map(str, row)] for row in rows])


if __name__ == "__main__":
    main()
