# SPDX-License-Identifier: Apache-2.0
"""The CPU time that it takes to make an HTML report, and how large it is.

The first report of a process is timed: it imports Jinja2 and compiles the template, as every
command with `--html` does. `python -m tests.bench.bench_html [ROUNDS]`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.figures import estimate, host_line, print_goal, print_table, rounds_wanted
from tests.html_documents import document, long_profile

ROUNDS = 10
#: Of any report, the time; of each, the size.
MOST_MS = 300
MOST_BYTES = {"profile": 300_000, "pull": 300_000, "advise": 300_000, "long": 800_000}
LABELS = {
    "profile": "profile of 60 s",
    "pull": "pull of 17 s",
    "advise": "advice from 19 trials",
    "long": "12,000 samples, 6 disks",
}
_ONE = """
import json, sys, time
found = json.load(open(sys.argv[1]))
start = time.process_time()
from profiler.html.pages import page_text
text = page_text(found)
open(sys.argv[2], "w").write(text)
print(time.process_time() - start, len(text.encode()))
"""


def measured(path: Path) -> tuple[float, int]:
    """Return the CPU time in s and the size in bytes of a report that a new process makes."""
    command = [sys.executable, "-c", _ONE, str(path), str(path.with_suffix(".html"))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, size = done.stdout.split()
    return float(seconds), int(size)


def main() -> None:
    """Measure and print."""
    rounds = rounds_wanted(ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, f"{name}.json") for name in MOST_BYTES}
        for name, path in paths.items():
            path.write_text(json.dumps(long_profile() if name == "long" else document(name)))
        found = {name: [measured(path) for _ in range(rounds)] for name, path in paths.items()}
    rows = [
        [
            LABELS[name],
            estimate([1000 * seconds for seconds, _ in runs]).text(),
            f"{runs[0][1] / 1000:.0f}",
        ]
        for name, runs in found.items()
    ]
    print(host_line(f"{rounds} reports of each, each in a new process"))
    print_table(["Report", "CPU time, ms", "Size, kB"], rows)
    times_ms = (estimate([1000 * seconds for seconds, _ in runs]) for runs in found.values())
    slowest = max(times_ms, key=lambda each: each.median)
    print_goal(f"the slowest takes at most {MOST_MS} ms", slowest.less(MOST_MS), "ms")
    for name, runs in found.items():
        assert runs[0][1] <= MOST_BYTES[name], name


if __name__ == "__main__":
    main()
