# SPDX-License-Identifier: Apache-2.0
"""What the probes add to a 4 KiB pwrite to tmpfs, compared with a floor, bpftrace and strace.

One program writes all the time, on its own CPU. In every round each tool is attached in turn, and
each time is compared with the time without any tool just before. So other activity of the machine
affects all equally. The floor is an empty program on the tracepoints that ours use. Run as root:
`python -m tests.bench.bench_probe_cost [ROUNDS]`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from contracts.loading import load_contract
from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf import loader
from profiler.bpf.probe import Probe
from profiler.bpf.session import ProfileSession
from tests.bench.attachments import wait_until_detached
from tests.bench.figures import estimate, host_line, print_goal, print_table, rounds_wanted
from tests.root import load

ROUNDS = 15
BATCHES = 5
CALLS = 40_000
#: strace's calls take fifty times as long.
CALLS_UNDER_STRACE = 2_000
SIZE_BYTES = 4096
DEPTH = 8
RULES = 10
SHM = "/dev/shm"
#: tracefs need not be mounted on the host: a separate mount namespace has it.
BPFTRACE = 'mountpoint -q "$0" || mount -t tracefs none "$0" && exec bpftrace -e "$1"'
SCRIPT = """
tracepoint:syscalls:sys_enter_pwrite64 /pid == {pid}/ {{ @start[tid] = nsecs; }}
tracepoint:syscalls:sys_exit_pwrite64 /@start[tid]/ {{
    @calls = count(); @bytes = sum(args->ret); @ns = hist(nsecs - @start[tid]);
    delete(@start[tid]);
}}
interval:ms:200 /!@told/ {{ @told = 1; printf("attached\\n"); }}
"""


class Writer:
    """The program that writes; `call_ns()` measures the mean time of a call."""

    def __init__(self, program: Path, file: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [program, "loop", file, str(SIZE_BYTES)], stdin=pipe, stdout=pipe, text=True
        )
        self.pid = self._process.pid
        os.sched_setaffinity(self.pid, {max(os.sched_getaffinity(0))})

    def call_ns(self, calls: int = CALLS) -> float:
        """Return the median of some batches."""
        return median(self._batch_ns(calls) for _ in range(BATCHES))

    def _batch_ns(self, calls: int) -> float:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def ten_rules(path: Path) -> Contract:
    """Return ten size ranges below a directory; this benchmark's calls fall into two of them."""
    ranges = [SizeRange(), *(SizeRange(1024 * n, 1024 * n + 1023) for n in range(1, RULES))]
    return Contract(
        10**9,
        tuple(
            Rule(f"rule{n}", str(path), (CallType.WRITE,), sizes, Measurement.COUNT, 1)
            for n, sizes in enumerate(ranges)
        ),
    )


@contextlib.contextmanager
def ours(contract: Contract, pid: int, calls: int, *, functions: bool = True) -> Iterator[None]:
    """Attach Writewise's probes, which must count every call."""
    with ProfileSession(contract, functions=functions) as session:
        session.track(pid)
        yield
        counted = session.snapshot().stats[0].count
        assert counted == calls, f"{counted} of {calls} calls were counted"


@contextlib.contextmanager
def bystander(contract: Contract) -> Iterator[None]:
    """Attach Writewise's probes to other processes: the cost for the rest of the host."""
    with ProfileSession(contract):
        yield


@contextlib.contextmanager
def floor(contract: Contract) -> Iterator[None]:
    """Attach empty programs where Writewise attaches its own."""
    tracepoints = [name for probe in ProfileSession(contract).probes() for name in all_of(probe)]
    source = str(Path(__file__).with_name("empty.bpf.c"))
    with loader.load((Probe("floor", (source,), functions={"nothing": tuple(tracepoints)}),), {}):
        yield


def all_of(probe: Probe) -> list[str]:
    """Return a probe's tracepoints that every kernel has; its raw ones do not run for a write."""
    left_out = {*probe.optional, *probe.raw_tracepoints}
    return [name for name in probe.all_tracepoints if name not in left_out]


@contextlib.contextmanager
def bpftrace(pid: int, calls: int) -> Iterator[None]:
    """Attach bpftrace, which must count every call as well."""
    command = ["unshare", "-m", "sh", "-c", BPFTRACE, "/sys/kernel/tracing", SCRIPT.format(pid=pid)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, **pipes, text=True) as process:
        said = ""
        while not said.endswith("attached\n"):
            line = process.stdout.readline()
            said += line
            assert line, said
        yield
        process.terminate()
        said = process.stdout.read()
    assert f"@calls: {calls}\n" in said, said


@contextlib.contextmanager
def strace(pid: int) -> Iterator[None]:
    """Attach `strace -c`."""
    command = ["strace", "-c", "-o", os.devnull, "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "attached" in process.stderr.readline()
        yield
        process.terminate()


def measure(writer: Writer, deep: Path, elsewhere: Path, rounds: int) -> dict[str, list[float]]:
    """Return the added ns of a call by tool, for each round; without a tool, the time itself."""
    default, calls = load_contract(None), BATCHES * CALLS
    top = deep.parents[DEPTH - 1]
    tools: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
        "floor": lambda: floor(default),
        "default": lambda: ours(default, writer.pid, calls),
        "path": lambda: ours(ten_rules(deep), writer.pid, calls),
        "far path": lambda: ours(ten_rules(top), writer.pid, calls),
        "no path": lambda: ours(ten_rules(elsewhere), writer.pid, 0),
        "bystander": lambda: bystander(default),
        "bpftrace": lambda: bpftrace(writer.pid, calls),
        "strace": lambda: strace(writer.pid),
    }
    added: dict[str, list[float]] = {name: [] for name in ("none", *tools)}
    for _ in range(rounds):
        for name, tool in tools.items():
            wait_until_detached()
            without_ns = writer.call_ns()
            with tool():
                with_ns = writer.call_ns(CALLS_UNDER_STRACE if name == "strace" else CALLS)
            added["none"].append(without_ns)
            added[name].append(with_ns - without_ns)
    return added


LABELS = {
    "none": "no probes (the time itself)",
    "floor": "the floor: empty programs on the same tracepoints",
    "default": "Writewise, default contract",
    "path": "Writewise, ten rules on the file's directory",
    "far path": f"Writewise, ten rules on a directory {DEPTH} levels up",
    "no path": "Writewise, ten rules on a directory elsewhere",
    "bystander": "Writewise at work on other processes",
    "bpftrace": "bpftrace: count, sum and histogram",
    "strace": "strace -c",
}


def report(added: dict[str, list[float]]) -> None:
    """Print the table and the goals, each from the differences within the rounds."""
    print(host_line("Added to a pwrite of 4 KiB to tmpfs, in ns"))
    print()
    base = estimate(added["none"]).median
    print_table(
        ("", "ns", "× the bare call"),
        [
            (
                LABELS[name],
                (estimate(values)).text("{:.0f}" if name == "none" else "{:+.0f}"),
                "1" if name == "none" else f"{1 + estimate(values).median / base:.2f}",
            )
            for name, values in added.items()
        ],
    )
    default, empty, others = added["default"], added["floor"], added["bpftrace"]
    excess = [own - (2.0 * least + 60) for own, least in zip(default, empty)]
    print_goal("default contract ≤ 2.0 × the floor + 60 ns", estimate(excess), unit="ns")
    excess = [own - 0.6 * other for own, other in zip(default, others)]
    print_goal("default contract ≤ 0.6 × bpftrace", estimate(excess), unit="ns")
    for name in ("path", "far path"):
        excess = [more - own - 100 for more, own in zip(added[name], default)]
        print_goal(f"{LABELS[name]} ≤ default contract + 100 ns", estimate(excess), unit="ns")


def main() -> None:
    """Measure and report."""
    with tempfile.TemporaryDirectory(dir=SHM) as name, tempfile.TemporaryDirectory() as elsewhere:
        deep = Path(name, *("d" * DEPTH))
        deep.mkdir(parents=True)
        writer = Writer(load.build(Path(name)), deep / "file")
        try:
            added = measure(writer, deep, Path(elsewhere), rounds_wanted(ROUNDS))
        finally:
            writer.close()
    report(added)


if __name__ == "__main__":
    main()
