# SPDX-License-Identifier: Apache-2.0
"""Control groups v2 as containers have them: a cap on writes, a limit on memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.guests.inside.volumes import MIB, NVME, TIMEOUT_S, formatted, run
from tests.root.labs import writewise

RATE_BYTES_PER_S = 4 * MIB
LIMIT_BYTES = 256 * MIB
PAGE_BYTES = 4096


#: The last freerun ceiling that the writer met: at first the group's statistics lag behind.
SCRIPT = """
tracepoint:writeback:balance_dirty_pages /comm == "writer"/ {
    @freerun_pages = 2 * args->setpoint - args->limit;
}
interval:ms:500 /!@told/ { @told = 1; printf("attached\\n"); }
"""
#: Writes far more than its group may hold dirty, then prints where writers wait by our formula.
WRITER = """
import os, sys
from pathlib import Path
from sysctl.host.memory_group import memory_group
from sysctl.host.sysctls import dirtyable_bytes, read_writeback
from sysctl.host.system import System
from sysctl.knobs.writeback import group_available_bytes, group_thresholds
Path("/proc/self/comm").write_text("writer")
other = bytearray(100 << 20)  # memory that is no page of a file
for at in range(0, len(other), 4096):
    other[at] = 1
with open(sys.argv[1], "wb", buffering=0) as file:
    for _ in range(120):
        file.write(bytes(1 << 20))
system = System()
host, group = dirtyable_bytes(system), memory_group(system)
available = group_available_bytes(group.use, host, 0)
values = {name: value for name, value in read_writeback(system).items() if value}
for bytes_available in (available, int(sys.argv[2])):
    print(group_thresholds(values, host, bytes_available).freerun_bytes)
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    with formatted(NVME, tmp_path / "volume") as mounted:
        yield mounted


def in_scope(*properties: str) -> tuple[str, ...]:
    """Return the words that run a command in a scope of systemd, as a container runs."""
    options = [word for each in properties for word in ("-p", each)]
    return ("systemd-run", "--scope", "--quiet", "--collect", *options, "--")


def test_writers_that_io_max_holds_back_wait_for_the_device(target: Path) -> None:
    size = 20 * MIB
    cap = f"IOWriteBandwidthMax={NVME} {RATE_BYTES_PER_S}"
    writer = ("dd", "if=/dev/zero", f"of={target}/file", "bs=1M", f"count={size // MIB}")
    done = writewise(
        *("profile", "--json", "--", *in_scope(cap), *writer, "oflag=direct"), timeout=TIMEOUT_S
    )
    document = json.loads(done.stdout)
    assert document["why"]["cause"] == "waiting for the device"
    split = {each["cause"]: each["time_ns"] for each in document["why"]["split"]}
    assert split["waiting for the device"] >= 0.7e9 * size / RATE_BYTES_PER_S
    [written] = [each for each in document["findings"] if each["label"] == "total_write"]
    assert written["bytes"] >= size


def test_writers_of_a_limited_group_wait_where_the_kernels_formula_says(target: Path) -> None:
    """The tracepoint has the kernel's own result: `setpoint` is (limit + freerun) / 2."""
    with subprocess.Popen(
        ["bpftrace", "-e", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as tracer:
        assert tracer.stdout is not None
        wait_for(tracer.stdout, "attached")
        words = (sys.executable, "-c", WRITER, target / "file", LIMIT_BYTES)
        slow = f"IOWriteBandwidthMax={NVME} {2 * RATE_BYTES_PER_S}"
        done = run(*in_scope(f"MemoryMax={LIMIT_BYTES}", "MemorySwapMax=0", slow), *words)
        tracer.terminate()
        seen = tracer.stdout.read()
    predicted_bytes, of_the_limit_bytes = map(int, done.split()[-2:])
    found = re.search(r"@freerun_pages: (\d+)", seen)
    assert found, f"no writer waited: {seen}"
    kernel_bytes = int(found[1]) * PAGE_BYTES
    assert kernel_bytes == pytest.approx(predicted_bytes, rel=0.1), seen
    assert kernel_bytes < 0.8 * of_the_limit_bytes, "a share of the limit would do as well"


def wait_for(stream: IO[str], word: str) -> None:
    for line in stream:
        if word in line:
            return
    raise AssertionError(f"it ended without saying {word!r}")
