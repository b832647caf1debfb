# SPDX-License-Identifier: Apache-2.0
"""What a profile costs before and after the command that it profiles, and the memory it keeps.

In every round each command is run once, and once `true` alone. Detaching goes on after a profile
has ended, so a round waits for it. Its time, and the time of a profile right after another, have
their own rows. Run as root: `python -m tests.bench.bench_startup [ROUNDS]`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.attachments import wait_until_detached
from tests.bench.figures import (
    differences,
    estimate,
    host_line,
    print_goal,
    print_table,
    rounds_wanted,
)

ROUNDS = 10
WRITEWISE = str(Path(sys.executable).with_name("writewise"))
COMMANDS = {
    "true": ["true"],
    "help": [WRITEWISE, "--help"],
    "profile": [WRITEWISE, "profile", "--", "true"],
    "again": [WRITEWISE, "profile", "--", "true"],
}
LABELS = {
    "true": "`true`",
    "help": "`writewise --help`",
    "profile": "`writewise profile -- true`, over `true`",
    "again": "the same, right after another",
    "detaching": "detaching, after the end",
}


def run_ms(command: list[str]) -> float:
    """Return the wall-clock time of a command."""
    start_ns = time.perf_counter_ns()
    subprocess.run(command, check=True, capture_output=True)
    return (time.perf_counter_ns() - start_ns) / 1e6


def resident_mib() -> float:
    """Return VmRSS of a profile of the host, once it counts."""
    command = [WRITEWISE, "profile", "--duration", "60s"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "Ctrl-C" in line, line
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.send_signal(signal.SIGINT)
        process.communicate()
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    return int(sizes["VmRSS"].split()[0]) / 1024


def detaching_ms() -> float:
    """Return the time from now until nothing is attached any more."""
    start_ns = time.perf_counter_ns()
    wait_until_detached()
    return (time.perf_counter_ns() - start_ns) / 1e6


def measure(rounds: int) -> tuple[dict[str, list[float]], list[float]]:
    """Return milliseconds by command, and MiB, of each round."""
    times: dict[str, list[float]] = {name: [] for name in LABELS}
    resident: list[float] = []
    for _ in range(rounds):
        wait_until_detached()
        for name, command in COMMANDS.items():
            times[name].append(run_ms(command))
        wait_until_detached()
        resident.append(resident_mib())
        times["detaching"].append(detaching_ms())
    return times, resident


def report(times: dict[str, list[float]], resident: list[float]) -> None:
    """Print the table and the goals."""
    bare = times["true"]
    over = {
        name: differences(times[name], bare, lambda own, alone: own - alone)
        for name in ("profile", "again")
    }
    shown = {**times, **over}
    print(host_line("Start-up and end, in ms, and memory"))
    print()
    rows = [(label, f"{estimate(shown[name]).text()} ms") for name, label in LABELS.items()]
    rows.append(("resident once it counts", f"{estimate(resident).text('{:.1f}')} MiB"))
    print_table(("", "median"), rows)
    print_goal(
        "`writewise profile -- true` ≤ 500 ms over `true`",
        estimate(over["profile"]).less(500),
        unit="ms",
    )
    print_goal("`writewise --help` ≤ 150 ms", estimate(times["help"]).less(150), unit="ms")


def main() -> None:
    """Measure and report."""
    report(*measure(rounds_wanted(ROUNDS)))


if __name__ == "__main__":
    main()
