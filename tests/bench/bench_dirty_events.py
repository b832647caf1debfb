# SPDX-License-Identifier: Apache-2.0
"""What events of dirty pages add to a 4 KiB pwrite: which of them the governor can wait for.

Two are raw tracepoints with an empty program, the least that a program would cost every writer:
`writeback_dirty_folio` happens for each page, `global_dirty_state` when a task compares the dirty
pages with the thresholds, every few hundred pages. The third is what a resting governor waits for:
a perf event of the latter, whose filter is not met. In every round a time with an event is compared
with the times just before and after. The file is appended to on a volume, so each call dirties a
page. Run as root: `python -m tests.bench.bench_dirty_events [ROUNDS [DIRECTORY]]`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from profiler.bpf import loader
from profiler.bpf.probe import Probe
from profiler.govern.dirty_events import opened_dirty_events
from sysctl.knobs.writeback import Thresholds
from tests.bench.attachments import wait_until_detached
from tests.bench.figures import estimate, host_line, print_goal, print_table, rounds_wanted
from tests.root import load
from tests.root.labs import volume

ROUNDS = 40
BATCHES = 7
CALLS = 8_000
GOAL_SHARE = 0.02
HERE = Path(__file__)
#: Each raw tracepoint, with the file of its program.
PROGRAMS = {
    "writeback_dirty_folio": "empty_raw.bpf.c",
    "global_dirty_state": "empty_state.bpf.c",
}
GOVERNOR = "global_dirty_state, the governor's"
EVENTS = (*PROGRAMS, GOVERNOR)
#: With these the filter of the governor's event is never met.
OUT_OF_REACH = Thresholds(2**50, 2**51)


class Writer:
    """The program that dirties pages; `call_ns()` measures the mean time of a call."""

    def __init__(self, program: Path, file: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([program, file], stdin=pipe, stdout=pipe, text=True)
        os.sched_setaffinity(self._process.pid, {max(os.sched_getaffinity(0))})

    def call_ns(self) -> float:
        """Return the median of some batches."""
        return median(self._batch_ns() for _ in range(BATCHES))

    def _batch_ns(self) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{CALLS}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@contextlib.contextmanager
def attached(event: str) -> Iterator[None]:
    """Attach the empty program to an event, or wait for the governor's."""
    if event == GOVERNOR:
        with opened_dirty_events(OUT_OF_REACH) as events:
            assert events is not None
            assert not events.wait(0)
            yield
        return
    source = str(HERE.with_name(PROGRAMS[event]))
    probe = Probe("event", (source,), raw_tracepoints=(event,))
    with loader.load((probe,), {}):
        yield


def measure(writer: Writer, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return by event, for each round, the bare time of a call and what the event adds (ns)."""
    found: dict[str, list[tuple[float, float]]] = {event: [] for event in EVENTS}
    wait_until_detached()
    before_ns = writer.call_ns()
    for _ in range(rounds):
        for event, rows in found.items():
            with attached(event):
                with_ns = writer.call_ns()
            wait_until_detached()
            after_ns = writer.call_ns()
            bare_ns = (before_ns + after_ns) / 2
            rows.append((bare_ns, with_ns - bare_ns))
            before_ns = after_ns
    return found


def report(found: dict[str, list[tuple[float, float]]]) -> None:
    """Print the table and the goals."""
    print(host_line("An event of dirty pages, and a pwrite of 4 KiB that dirties one"))
    print()
    shares = {
        event: estimate([100 * added / bare for bare, added in rows])
        for event, rows in found.items()
    }
    table = [
        (
            event,
            estimate([bare for bare, _ in rows]).text("{:.0f}"),
            estimate([added for _, added in rows]).text("{:+.0f}"),
            shares[event].text("{:+.1f}"),
        )
        for event, rows in found.items()
    ]
    print_table(("event", "bare, ns", "added, ns", "added, %"), table)
    for event, share in shares.items():
        excess = share.less(100 * GOAL_SHARE)
        print_goal(f"{event}: at most 2 %", excess, unit="points", form="{:+.1f}")


def main() -> None:
    """Measure and report."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, contextlib.ExitStack() as stack:
        place = Path(sys.argv[2]) if len(sys.argv) > 2 else stack.enter_context(volume(Path(name)))
        writer = Writer(load.build(Path(name), HERE.with_name("dirtying.c")), place / "dirtied")
        try:
            measured = measure(writer, rounds_wanted(ROUNDS))
        finally:
            writer.close()
            (place / "dirtied").unlink(missing_ok=True)
    report(measured)


if __name__ == "__main__":
    main()
