# SPDX-License-Identifier: Apache-2.0
"""Measure the whole workflow: what a default sweep finds, how soon, and what gain is left.

On the demo's lab a sweep runs by the command line. Then pulls under the recommended setting
alternate with pulls of the same objects into tmpfs, which no device limits. The difference is all
that any setting could still gain. Run as root: `python -m tests.bench.bench_advice [PAIRS]`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profiler.lab import lab
from profiler.pull.destination import Destination
from profiler.pull.measured import Verify, measure_pull
from profiler.report.conclusions import verdict_text
from profiler.study.bench import PullBench
from sysctl.advice.advise import Recommendation, advise
from sysctl.evidence.results import load
from sysctl.knobs.setting import Setting
from tests.bench.figures import estimate, host_line, print_goal, print_table, rounds_wanted
from tests.bench.record_grid import bench_on

PAIRS = 8
GOAL_SPEEDUP, GOAL_MINUTES, GOAL_PERCENT = 5, 3, 5


def sweep(made: lab.Lab, output: Path) -> float:
    """Sweep with the defaults; return how long it took, in seconds."""
    words = ("sweep", made.source, made.destination, "--output", output)
    access = ("--endpoint-url", made.endpoint_url, "--no-sign-request")
    command = [sys.executable, "-m", "profiler.cli.main", *map(str, (*words, *access))]
    began_s = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began_s


def tmpfs_pull_s(bench: PullBench, folder: Path) -> float:
    """Time the same pull into memory, with probes."""
    bench.host.drop_clean_caches()
    measured = measure_pull(
        *(bench.pool, bench.plan, Destination(folder), bench.session),
        durable=False,
        keep=False,
        verify=Verify.SIZE,
    )
    assert not measured.failures, measured.failures[0].reason
    return measured.return_s


def volume_pull_s(bench: PullBench, setting: Setting) -> float:
    """Time a trial of the setting on the volume."""
    bench.apply(setting)
    return bench.measure(durable=False).return_s


def apart_percent(made: lab.Lab, setting: Setting, pairs: int) -> list[float]:
    """Return by how much the pull to the volume took longer than to tmpfs, for each pair."""
    found = []
    with bench_on(made) as (bench, *_), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        volume_pull_s(bench, setting)  # warms code and connections
        for number in range(pairs):
            if number % 2:
                volume_s = volume_pull_s(bench, setting)
                memory_s = tmpfs_pull_s(bench, Path(folder))
            else:
                memory_s = tmpfs_pull_s(bench, Path(folder))
                volume_s = volume_pull_s(bench, setting)
            found.append((volume_s / memory_s - 1) * 100)
    return found


def main() -> None:
    """Run a sweep and the pairs with tmpfs, and print the advice and the goals."""
    pairs = rounds_wanted(PAIRS)
    with tempfile.TemporaryDirectory() as folder, lab.running(lab.LabSpec()) as made:
        output = Path(folder, "results.json")
        minutes = sweep(made, output) / 60
        found = advise(load(output))
        assert found.best is not None, verdict_text(found)
        percent = apart_percent(made, found.best.setting, pairs)
    print(
        host_line(
            f"A sweep of {len(found.analysis.runs.trials)} trials, then {pairs} pairs with tmpfs"
        )
    )
    print()
    print_advice(found, minutes, percent)


def print_advice(found: Recommendation, minutes: float, percent: list[float]) -> None:
    """Print the table and the goals."""
    interval = found.interval
    assert found.best is not None
    assert interval is not None
    apart = estimate(percent)
    rows = [
        ("present settings, s", f"{found.present.return_s.median:.1f}"),
        (f"{found.best.setting}, s", f"{found.best.return_s.median:.2f}"),
        (
            f"times as fast, {interval.count} pairs",
            f"{found.speedup:.1f} [{1 / interval.high:.1f}, {1 / interval.low:.1f}]",
        ),
        ("the sweep, minutes", f"{minutes:.1f}"),
        ("longer than into tmpfs, %", apart.text("{:+.1f}")),
    ]
    print_table(("", "median [95 % interval]"), rows)
    speedup, allowed = estimate([GOAL_SPEEDUP - found.speedup]), apart.less(GOAL_PERCENT)
    print_goal(f"{GOAL_SPEEDUP} times as fast", speedup, "times", "{:+.2f}")
    print_goal(f"in {GOAL_MINUTES} minutes", estimate([minutes - GOAL_MINUTES]), "min", "{:+.2f}")
    print_goal(f"< {GOAL_PERCENT} % longer than into tmpfs", allowed, "%", "{:+.1f}")


if __name__ == "__main__":
    main()
