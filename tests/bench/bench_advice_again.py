# SPDX-License-Identifier: Apache-2.0
"""Repeat real sweeps, each on a new lab, and count how often their advice agrees.

Run as root: `python -m tests.bench.bench_advice_again [LAB [SWEEPS]]`. LAB is one of `LABS`; the
default is the demo's, ten times. Each sweep has its own lab, made like the others.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from profiler.lab import lab
from sysctl.advice.advise import Recommendation, advise
from sysctl.evidence.results import load
from sysctl.evidence.statistics import Interval
from tests.bench.bench_advice import sweep
from tests.bench.figures import host_line, print_table

SWEEPS = 10
MIB = 2**20
#: Cases that have one right answer.
LABS: Mapping[str, lab.LabSpec] = {
    "demo": lab.LabSpec(),
    "slow-ext4": lab.LabSpec(
        memory_bytes=2355 * MIB,
        fstype="ext4",
        rate_bytes_per_s=25 * MIB,
        object_count=20,
        object_bytes=50 * MIB,
    ),
    # 2 connections per worker are no faster than the volume
    "slow-source": lab.LabSpec(connection_bytes_per_s=1_000_000),
    "beyond-memory": lab.LabSpec(memory_bytes=1024 * MIB, object_count=80),
    "busy-neighbour": lab.LabSpec(),
}
_BLOCK_BYTES = MIB


@contextmanager
def neighbour(name: str, made: lab.Lab) -> Iterator[None]:
    """In the lab of that name, run a program that rewrites a file on the volume all the time."""
    if name != "busy-neighbour":
        yield
        return
    target = Path(made.destination, ".neighbour")
    options = ("conv=notrunc", "oflag=direct", f"bs={_BLOCK_BYTES}", "count=64", "status=none")
    loop = f"while dd if=/dev/zero of={target} {' '.join(options)}; do sleep 1; done"
    with subprocess.Popen(("sh", "-c", loop), start_new_session=True) as process:
        try:
            yield
        finally:
            process.kill()
            process.wait()
            time.sleep(1)  # until the last dd ends
            target.unlink(missing_ok=True)


def advice_of(name: str) -> tuple[Recommendation, float]:
    """Sweep with the defaults on a new lab; return the advice and the minutes it took."""
    with tempfile.TemporaryDirectory() as folder, lab.running(LABS[name]) as made:
        output = Path(folder, "results.json")
        with neighbour(name, made):
            minutes = sweep(made, output) / 60
        return advise(load(output)), minutes


def row(number: int, found: Recommendation, minutes: float) -> tuple[str, ...]:
    """Return one line of the table."""
    invalid = sum(bool(trial.problem) for trial in found.analysis.runs.trials)
    return (
        str(number),
        str(found.best.setting) if found.best else found.case.value,
        _times_as_fast(found.interval),
        f"{len(found.analysis.runs.trials)} ({invalid} invalid)",
        f"{minutes:.1f}",
    )


def _times_as_fast(ratio: Interval | None) -> str:
    if ratio is None:
        return "not compared"
    return f"{1 / ratio.estimate:.1f} [{1 / ratio.high:.1f}, {1 / ratio.low:.1f}]"


def main() -> None:
    """Sweep, print a line for each sweep, and how often they agree."""
    name = sys.argv[1] if len(sys.argv) > 1 else "demo"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else SWEEPS
    rows, spent = [], []
    for number in range(1, count + 1):
        found, minutes = advice_of(name)
        rows.append(row(number, found, minutes))
        spent.append(minutes)
        print("\t".join(rows[-1]), file=sys.stderr, flush=True)
    print(host_line(f"{count} sweeps of the lab {name}"))
    print()
    print_table(("sweep", "advice", "times as fast", "trials", "minutes"), rows)
    advice, times = Counter(words[1] for words in rows).most_common(1)[0]
    print(f"\n{times} of {count} recommend {advice}; {median(spent):.1f} minutes in the median.")


if __name__ == "__main__":
    main()
