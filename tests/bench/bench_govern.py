# SPDX-License-Identifier: Apache-2.0
"""A pull at rest, under the standing setting 80, under `run` with it, and under `govern`.

Each round pulls the lab's 40 objects of 48 MiB four times, onto its volume of 62.5 MiB/s, with
4 GiB of memory; every second round has the order reversed. Ratios are of the pulls of one round.
Run as root: `python -m tests.bench.bench_govern [ROUNDS [FILE]]`. With a FILE, which keeps the
figures, the rounds of several starts count together.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from profiler.cli.common import terminable
from profiler.lab import lab
from sysctl.host.host import Host
from sysctl.host.system import System
from tests.bench.figures import (
    Estimate,
    estimate,
    host_line,
    print_goal,
    print_table,
    rounds_wanted,
)
from tests.root.governing import (
    Outside,
    at_rest_after_s,
    governor,
    thresholds,
    wait_until_drained,
)
from tests.root.labs import command, endpoint_arguments

ROUNDS = 6
MIB = 2**20
REST, GOVERN, STATIC, RUN = "at rest (20/10)", "govern", "standing (80/10)", "run (80/10)"
WAYS = (REST, GOVERN, STATIC, RUN)
SETTINGS = {"vm.dirty_ratio": 80, "vm.dirty_background_ratio": 10}
BOUND = "2GiB"


@dataclass(frozen=True)
class Run:
    """One pull, and the host during it. `at_rest_s` counts from the drain."""

    way: str
    return_s: float
    durable_s: float
    stalled_share: float
    peak_bytes: int
    raised_s: float
    at_rest_s: float


def pull(present: lab.Lab, way: str, own: dict[str, int]) -> Run:
    """Pull once, watch from outside until all is drained, and delete the files.

    `own` are the host's own thresholds; others count as raised.
    """
    target = Path(present.destination, "burst")
    target.mkdir()
    words = command("pull", present.source, target, *endpoint_arguments(present), "--json")
    if way == RUN:
        words = command("run", "--dirty-ratio", 80, "--dirty-background-ratio", 10, "--", *words)
    with Outside().looking() as outside:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        figures = json.loads(done.stdout)
        wait_until_drained(outside.seen[0].background_bytes)
        time.sleep(3.5)
    raised = [each for each in outside.seen if each.values != own]
    run = Run(
        way,
        figures["return_s"],
        figures["durable_s"],
        figures["stalled_share"] or 0.0,
        max(each.held_bytes for each in outside.seen),
        raised[-1].time_s - raised[0].time_s if raised else 0.0,
        at_rest_after_s(outside.seen, own, outside.seen[0].background_bytes),
    )
    subprocess.run(["rm", "-r", "--", str(target)], check=True)
    print(f"{way}: {run.return_s:.1f} s, writers waited {run.stalled_share:.1%}", flush=True)
    return run


@contextlib.contextmanager
def in_force(present: lab.Lab, way: str) -> Iterator[None]:
    """Put one of the ways in force within the block."""
    if way == GOVERN:
        with governor(present.destination, "--max-at-risk", BOUND):
            yield
    elif way == STATIC:
        with Host.exclusive("static", "bench") as host:
            host.set_writeback(SETTINGS)
            yield
    else:
        yield


def measure(rounds: int, begin: int) -> Iterator[list[Run]]:
    """Yield the runs of each round, after a pull that does not count."""
    spec = lab.LabSpec()
    with terminable(), lab.running(spec, say=print) as present:
        with Host.exclusive("settle", "bench") as host:  # the limit of the memory before the lab
            host.set_writeback({"vm.dirty_ratio": 21})
        own = thresholds(System())
        pull(present, "a first pull, not counted", own)
        for number in range(begin, begin + rounds):
            found = []
            for way in WAYS if number % 2 == 0 else WAYS[::-1]:
                with in_force(present, way):
                    found.append(pull(present, way, own))
            yield found


def show(rounds: list[list[Run]]) -> None:
    """Print the table and the goals."""
    of_way = {way: [r for each in rounds for r in each if r.way == way] for way in WAYS}

    def ratios(left: str, right: str) -> Estimate:
        return estimate([a.return_s / b.return_s for a, b in zip(of_way[left], of_way[right])])

    print(host_line(f"{len(rounds)} rounds of 40 x 48 MiB, 62.5 MiB/s, 4 GiB"))
    print()
    header = (
        *("setting", "return, s", "durable, s", "writers waited, %", "most at risk, MiB"),
        *("raised, s", "at rest after the drain, s"),
    )
    print_table(
        header,
        [
            (
                way,
                estimate([run.return_s for run in runs]).text("{:.1f}"),
                f"{median(run.durable_s for run in runs):.1f}",
                estimate([run.stalled_share * 100 for run in runs]).text("{:.1f}"),
                f"{max(run.peak_bytes for run in runs) / MIB:.0f}",
                "always" if way == STATIC else f"{median(run.raised_s for run in runs):.1f}",
                "never" if way == STATIC else f"{max(run.at_rest_s for run in runs):.2f}",
            )
            for way, runs in of_way.items()
        ],
    )
    against, faster = ratios(GOVERN, STATIC), ratios(REST, GOVERN)
    print(f"- return under run / standing: {ratios(RUN, STATIC).text('{:.2f}')}")
    print(f"- return under govern / standing: {against.text('{:.2f}')}")
    print(f"- return at rest / under govern: {faster.text('{:.2f}')}")
    print_goal("at most 1.05 times the standing setting", against.less(1.05), "times", "{:+.2f}")
    slower = Estimate(4 - faster.median, 4 - faster.high, 4 - faster.low)
    print_goal("at least 4 times faster than at rest", slower, "times", "{:+.2f}")
    waited = estimate([run.stalled_share * 100 for run in of_way[GOVERN]])
    print_goal("writers wait at most 1 % of their time", waited.less(1), "points", "{:+.2f}")
    late = estimate([run.at_rest_s for run in of_way[GOVERN]])
    print_goal("at rest 3 s after the drain", late.less(3), "s", "{:+.2f}")


def main() -> None:
    """Measure, keep the figures if a file is named, and print them."""
    file = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    kept = json.loads(file.read_text()) if file and file.exists() else []
    rounds = [[Run(**run) for run in each] for each in kept]
    for found in measure(rounds_wanted(ROUNDS), len(rounds)):
        rounds.append(found)
        if file:
            file.write_text(json.dumps([[asdict(run) for run in each] for each in rounds]))
    show(rounds)


if __name__ == "__main__":
    main()
