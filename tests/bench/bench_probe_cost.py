"""What the probes cost: start-up, and time added to a 4 KiB pwrite to tmpfs.

Rounds without and with probes alternate in one process, so that what else the machine does hits
both alike; the interval is of the median of the rounds' differences, by bootstrap. Run as root:
`python -m tests.bench.bench_probe_cost`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.session import ProfileSession

ROUNDS = 15
CALLS = 20_000
RESAMPLES = 2_000
DEPTH = 8


def contract(path: str) -> Contract:
    rule = Rule("cost", path, (CallType.WRITE,), SizeRange(), Measurement.COUNT, 1)
    return Contract(10**9, (rule,))


def round_ns(fd: int, block: bytes) -> float:
    """Mean time of a call in ns; Python's own share is in it, with and without probes."""
    pwrite = os.pwrite
    start_ns = time.perf_counter_ns()
    for _ in itertools.repeat(None, CALLS):
        pwrite(fd, block, 0)
    return (time.perf_counter_ns() - start_ns) / CALLS


def interval(differences: list[float]) -> tuple[float, float]:
    """95 % interval of the median."""
    source = random.Random(1)
    count = len(differences)
    medians = [median(source.choices(differences, k=count)) for _ in range(RESAMPLES)]
    twentieths = quantiles(medians, n=40)
    return twentieths[0], twentieths[-1]


def compare(name: str, path: str, file: Path, scope: Callable[[ProfileSession], object]) -> None:
    block = bytes(4096)
    base, added = [], []
    fd = os.open(file, os.O_WRONLY)
    try:
        start = time.perf_counter()
        with ProfileSession(contract(path)):
            attach_s = time.perf_counter() - start
        for _ in range(ROUNDS):
            without_ns = round_ns(fd, block)
            with ProfileSession(contract(path)) as session:
                scope(session)
                with_ns = round_ns(fd, block)
            base.append(without_ns)
            added.append(with_ns - without_ns)
    finally:
        os.close(fd)
    (low, high), base_ns, added_ns = interval(added), median(base), median(added)
    print(
        f"{name:28} base {base_ns:4.0f} ns, added {added_ns:+4.0f} [{low:+.0f}, {high:+.0f}] ns, "
        f"× {1 + added_ns / base_ns:.2f} [{1 + low / base_ns:.2f}, {1 + high / base_ns:.2f}]; "
        f"start-up {attach_s:.2f} s",
        flush=True,
    )


def main() -> None:
    folder_of_tmpfs = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=folder_of_tmpfs) as name:
        deep = Path(name, *("d" * DEPTH))
        deep.mkdir(parents=True)
        file = deep / "file"
        file.touch()

        def self_in_scope(session: ProfileSession) -> None:
            session.track(os.getpid())

        compare("not in scope", "/", file, lambda session: None)
        compare("path /", "/", file, self_in_scope)
        compare("its own directory", str(deep), file, self_in_scope)
        compare(f"a directory {DEPTH} levels up", name, file, self_in_scope)
        with contextlib.ExitStack() as stack:
            elsewhere = stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))
            compare("a directory elsewhere", elsewhere, file, self_in_scope)


if __name__ == "__main__":
    main()
