# SPDX-License-Identifier: Apache-2.0
"""Measure what probes add to a 4 KiB pwrite to tmpfs in a guest whose clock counts instructions.

`python -m tests.guests cost` runs it there. It prints a JSON object: a row's name → ns per call.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from contracts.loading import load_contract
from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf import loader
from profiler.bpf.disks import devices_of
from profiler.bpf.probe import Probe
from profiler.bpf.stall_session import StallSession
from tests.bench import bench_probe_cost
from tests.bench.attachments import wait_until_detached
from tests.bench.bench_probe_cost import BATCHES, SHM, Writer, bpftrace, bystander, ours
from tests.root import load
from tests.root.governing import governor

CALLS = 2_000
EMPTY = str(Path(bench_probe_cost.__file__).with_name("empty.bpf.c"))
PAIR = ("syscalls:sys_enter_pwrite64", "syscalls:sys_exit_pwrite64")


def rules(count: int) -> Contract:
    """Return so many rules of `/`, the first for all sizes, each with its own counter."""
    ranges = [SizeRange(), *(SizeRange(1024 * at, 1024 * at + 1023) for at in range(1, count))]
    write = (CallType.WRITE,)
    return Contract(
        10**9,
        tuple(
            Rule(f"rule{at}", "/", write, sizes, Measurement.COUNT, 1)
            for at, sizes in enumerate(ranges)
        ),
    )


def of_fsync() -> Contract:
    """Return a contract that does not count the measured call."""
    fsync = Rule("fsync", "/", (CallType.FSYNC,), SizeRange(), Measurement.COUNT, 1)
    return Contract(10**9, (fsync,))


@contextlib.contextmanager
def empty_pair() -> Iterator[None]:
    """Attach an empty program to the beginning and the end of the call."""
    with loader.load((Probe("floor", (EMPTY,), functions={"nothing": PAIR}),), {}):
        yield


def main() -> None:
    """Measure each tool once: instructions have no noise.

    A look of the governor falls into some batches of calls; their median is without it.
    """
    with tempfile.TemporaryDirectory(dir=SHM) as name:
        writer = Writer(load.build(Path(name)), Path(name, "file"))
        calls = BATCHES * CALLS
        tools: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
            "none": contextlib.nullcontext,
            "empty pair": empty_pair,
            "default contract": lambda: ours(load_contract(None), writer.pid, calls),
            "default contract, on tracepoints": lambda: ours(
                load_contract(None), writer.pid, calls, functions=False
            ),
            "default contract, another process": lambda: bystander(load_contract(None)),
            "a contract of fsync": lambda: bystander(of_fsync()),
            **{
                f"{count} rules": partial(ours, rules(count), writer.pid, calls)
                for count in (1, 2, 8)
            },
            "watch at level stalls": lambda: StallSession(devices_of(["/"])),
            "govern at rest": lambda: governor("/"),
            "bpftrace": lambda: bpftrace(writer.pid, calls),
        }
        measured: dict[str, float] = {}
        for tool, attached in tools.items():
            wait_until_detached()  # the probes of the tool before
            with attached():
                measured[tool] = writer.call_ns(CALLS)
        writer.close()
    print(json.dumps({"cpus": os.cpu_count(), "call_ns": measured}))


if __name__ == "__main__":
    main()
