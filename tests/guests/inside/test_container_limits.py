# SPDX-License-Identifier: Apache-2.0
"""Where writers of a memory-limited container wait: our formula against the kernel's own figure.

The formula is applied to the group *before* its first write, as an advice does. The tracepoint has
what the kernel computed when a writer waited: `setpoint` is (limit + freerun) / 2. The group's own
counters say independently how much was dirty when its writer first waited.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sysctl.host.memory_group import MemoryGroup, memory_group
from sysctl.host.sysctls import dirtyable_bytes, read_dirty_bytes, read_writeback
from sysctl.host.system import System
from sysctl.knobs.writeback import PAGE_BYTES, group_available_bytes, group_thresholds
from tests.guests.inside.test_groups import in_scope, wait_for
from tests.guests.inside.volumes import MIB, NVME, formatted, run
from tests.root.governing import in_force
from tests.root.labs import SYSTEM

RATIOS = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}
BYTES = {"vm.dirty_bytes": 600 * MIB, "vm.dirty_background_bytes": 200 * MIB}
#: The writer is far faster than the device, and slow enough for the group's counters.
SECONDS_TO_FREERUN, SECONDS_OF_WRITING = 4, 7
DEVICE_BYTES_PER_S = MIB
TOLERANCE = 0.05
#: A writer looks only after up to 128 pages (`dirty_poll_interval()`), the counters are read each
#: 20 ms.
LATE_BYTES = MIB
#: A line for each wait of the writer: time (ns), dirty pages and freerun of the stricter domain.
SCRIPT = """
tracepoint:writeback:balance_dirty_pages /comm == "writer"/ {
    printf("%lu %lu %lu\\n", nsecs, args->dirty, 2 * args->setpoint - args->limit);
}
interval:ms:500 /!@told/ { @told = 1; printf("attached\\n"); }
"""
#: Takes memory that is no page of a file, says so, and writes at a rate when it is told to.
WRITER = """
import mmap, sys, time
from pathlib import Path
Path("/proc/self/comm").write_text("writer")
path, anonymous, rate, seconds = sys.argv[1], *map(int, sys.argv[2:])
if anonymous:
    other = mmap.mmap(-1, anonymous)
    for at in range(0, anonymous, 4096):
        other[at] = 1
print("ready", flush=True)
sys.stdin.readline()
piece, begun = bytes(1 << 16), time.monotonic()
with open(path, "wb", buffering=0) as file:
    while (passed := time.monotonic() - begun) < seconds:
        while file.tell() < rate * passed and time.monotonic() - begun < seconds:
            file.write(piece)
        time.sleep(0.01)
    print("done", flush=True)
    sys.stdin.readline()
"""


class Within(System):
    """The host as a process of another control group sees it."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid

    def read(self, path: str) -> str:
        """Return a file's content, that of the process for those of this process."""
        return super().read(path.replace("/proc/self/cgroup", f"/proc/{self._pid}/cgroup"))


@dataclass(frozen=True)
class Wait:
    """A wait of the writer: when, the dirty pages of its domain, and where the kernel began."""

    time_s: float
    dirty_bytes: int
    freerun_bytes: int


@dataclass
class Container:
    """A running writer with its group, and what the group's counters said over time."""

    writer: subprocess.Popen[str]
    system: System
    dirty_bytes: list[tuple[float, int]] = field(default_factory=list)

    def group(self) -> MemoryGroup:
        found = memory_group(self.system)
        assert found
        assert found.use
        return found

    def write(self) -> None:
        """Let it write to the end, reading the counters, which makes the kernel add them up."""
        assert self.writer.stdin is not None
        assert self.writer.stdout is not None
        done = threading.Thread(target=self.writer.stdout.readline)
        self.writer.stdin.write("\n")
        self.writer.stdin.flush()
        done.start()
        while done.is_alive():
            use = self.group().use
            assert use
            self.dirty_bytes.append((time.monotonic(), use.dirty_bytes))
            time.sleep(0.02)
        self._lift_cap()
        self.writer.communicate("\n", timeout=300)

    def _lift_cap(self) -> None:
        """Let the device take what is queued at once."""
        path = Path("/sys/fs/cgroup", self.group().path.lstrip("/"), "io.max")
        device = path.read_text().split()[0]
        path.write_text(f"{device} wbps=max")

    def dirty_bytes_at(self, time_s: float) -> int:
        return min(self.dirty_bytes, key=lambda each: abs(each[0] - time_s))[1]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with formatted(NVME, tmp_path_factory.mktemp("limits") / "volume") as mounted:
        yield mounted


@pytest.fixture(scope="module")
def tracer() -> Iterator[list[Wait]]:
    """The waits of all writers so far, which a thread adds."""
    found: list[Wait] = []
    with subprocess.Popen(
        ["bpftrace", "-e", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        lines = process.stdout
        wait_for(lines, "attached")
        reader = threading.Thread(target=lambda: found.extend(filter(None, map(wait_of, lines))))
        reader.start()
        yield found
        process.terminate()
        reader.join()


def wait_of(line: str) -> Wait | None:
    """Return the wait in a line of bpftrace, if it has one."""
    words = line.split()
    if len(words) != 3:
        return None
    time_ns, dirty, freerun = map(int, words)
    return Wait(time_ns / 1e9, dirty * PAGE_BYTES, freerun * PAGE_BYTES)


@contextmanager
def thresholds(values: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Set thresholds within the block; yield the write-back sysctls in force."""
    before = in_force()
    set_all(values)
    try:
        yield {name: value for name, value in read_writeback(SYSTEM).items() if value}
    finally:
        set_all(before)


def set_all(values: Mapping[str, int]) -> None:
    run("sysctl", "--quiet", *(f"{name}={value}" for name, value in values.items()))


@contextmanager
def container(path: Path, limit_bytes: int, anonymous_bytes: int) -> Iterator[Container]:
    """Start a writer in a group with a memory limit; `Container.write` lets it write."""
    slow = f"IOWriteBandwidthMax={NVME} {DEVICE_BYTES_PER_S}"
    rate = int(limit_bytes * 0.15 / SECONDS_TO_FREERUN)
    words = (sys.executable, "-c", WRITER, path, anonymous_bytes, rate, SECONDS_OF_WRITING)
    limits = in_scope(f"MemoryMax={limit_bytes}", "MemorySwapMax=0", slow)
    argv = [str(word) for word in (*limits, *words)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        wait_for(process.stdout, "ready")
        yield Container(process, Within(process.pid))
    path.unlink()
    run("sync", "--file-system", path.parent)


def predicted_bytes(values: Mapping[str, int], group: MemoryGroup, host_bytes: int) -> int:
    """Return our formula's freerun of a group as it is now."""
    assert group.use
    available = group_available_bytes(group.use, host_bytes, read_dirty_bytes(SYSTEM))
    return group_thresholds(values, host_bytes, available).freerun_bytes


@pytest.mark.parametrize("form", [RATIOS, BYTES], ids=["ratio", "bytes"])
@pytest.mark.parametrize("anonymous", [0, 0.3], ids=["no anonymous memory", "30 % anonymous"])
@pytest.mark.parametrize("limit_mib", [128, 384, 1024])
def test_the_formula_says_where_writers_wait(
    target: Path, tracer: list[Wait], limit_mib: int, anonymous: float, form: Mapping[str, int]
) -> None:
    limit_bytes = limit_mib * MIB
    with container(target / "file", limit_bytes, int(anonymous * limit_bytes)) as within:
        host_bytes = dirtyable_bytes(SYSTEM)  # while ratios are in force, the kernel's own figure
        with thresholds(form) as values:
            tracer.clear()
            expected_bytes = predicted_bytes(values, within.group(), host_bytes)
            within.write()
            time.sleep(0.5)  # for bpftrace
    assert tracer, "no writer waited"
    first, held_bytes = tracer[0], within.dirty_bytes_at(tracer[0].time_s)
    row = [expected_bytes, first.freerun_bytes, tracer[-1].freerun_bytes, held_bytes]
    print("row", limit_mib, *form.values(), anonymous, *(f"{each / MIB:.1f}" for each in row))
    assert first.freerun_bytes == pytest.approx(expected_bytes, rel=TOLERANCE)
    late_bytes = TOLERANCE * expected_bytes + LATE_BYTES
    assert held_bytes == pytest.approx(expected_bytes, abs=late_bytes)
