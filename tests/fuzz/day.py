# SPDX-License-Identifier: Apache-2.0
"""A day of bursts in minutes: the governor's loop, reader, policy and journal, a simulated kernel.

    python -m tests.fuzz.day [HOURS]    (default 24; no root; it is not part of the tests)

The clock is simulated; the files of /proc and debugfs are real files. A burst of another kind comes
every four minutes. At the end nothing may have grown: the memory that Python holds, descriptors,
files; and the thresholds must be the host's own whenever no burst is being written.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from pathlib import Path

from profiler.govern.loop import INTERVAL_NS, Loop
from profiler.govern.reader import HostReader
from profiler.govern.volumes import NamedVolume, VolumeReader
from profiler.recording.stopping import Stop
from sysctl.govern.bounds import RaiseLimits
from sysctl.host.raising_host import governing
from sysctl.knobs.writeback import PAGE_BYTES
from tests.unit.applied_hosts import FilesHost
from tests.unit.dirty_pages import BOOTED_NS, GIB, MIB, POLL_STEPS, STEP_S, Burst, Host, Volume

HOURS = 24.0
EVERY_S = 240.0
#: MiB and MiB/s, of each kind in turn; the volume writes 62.5 MiB/s, the bound is 2 GiB.
KINDS = ((1920, 400), (100, 300), (600, 50), (3000, 900), (900, 120), (1700, 1200), (5, 5))
MEMORY_BYTES = 4 * GIB
#: After this time of a burst's four minutes it must be drained and the thresholds at rest.
AT_REST_S = 90.0
#: What memory may grow by from the first hour to the end.
GROWTH_BYTES = 256 * 1024
_BACKING = "7:0"


class Files(FilesHost):
    """The files that the readers read, as the simulated kernel would print them."""

    kernel: Host | None = None
    writes = 0
    _printed: object = None

    def put_thresholds(self) -> None:
        """Write the counters; the thresholds in force come from the sysctls."""
        if self.kernel is None:
            return
        at, volume = self.kernel.at, self.kernel.volumes[0]
        state = (at, volume.dirty_bytes, volume.writeback_bytes, volume.dirtied_bytes)
        if state == self._printed:
            return
        self._printed = state
        pages = {
            "nr_free_pages": MEMORY_BYTES // 2 // PAGE_BYTES,
            "nr_inactive_file": MEMORY_BYTES // 4 // PAGE_BYTES,
            "nr_active_file": MEMORY_BYTES // 4 // PAGE_BYTES,
            "nr_dirty": int(volume.dirty_bytes) // PAGE_BYTES,
            "nr_writeback": int(volume.writeback_bytes) // PAGE_BYTES,
            "nr_dirtied": int(volume.dirtied_bytes) // PAGE_BYTES,
            "nr_written": int(volume.written_bytes) // PAGE_BYTES,
            "nr_dirty_threshold": at.dirty_bytes // PAGE_BYTES,
            "nr_dirty_background_threshold": at.background_bytes // PAGE_BYTES,
        }
        self.put("/proc/vmstat", "\n".join(f"{name} {count}" for name, count in pages.items()))
        figures = {
            "BdiWriteback": volume.writeback_bytes,
            "BdiReclaimable": volume.dirty_bytes,
            "BdiDirtied": volume.dirtied_bytes,
            "BdiWritten": volume.written_bytes,
        }
        lines = (f"{name}: {int(size) // 1024} kB" for name, size in figures.items())
        self.put(f"/debug/bdi/{_BACKING}/stats", "\n".join(lines))

    def write(self, absolute: str, text: str) -> None:
        """Write a sysctl; the kernel obeys at once."""
        super().write(absolute, text)
        self.writes += 1
        self.obey()

    def obey(self) -> None:
        """Give the kernel the thresholds of the files."""
        assert self.kernel is not None
        found = self.values()
        names = ("ratio", "bytes", "background_ratio", "background_bytes")
        present = {f"vm.dirty_{name}": found[f"dirty_{name}"] for name in names}
        self.kernel.values = {name: value for name, value in present.items() if value}
        self.put_thresholds()


class Day:
    """The simulated day: its clock, its bursts, and what the loop reports."""

    def __init__(self, files: Files, hours: float, stop: Stop) -> None:
        self.files, self.stop = files, stop
        self.kernel = Host(MEMORY_BYTES, [Volume(62.5 * MIB)], [])
        self.seen: Counter[str] = Counter()
        self.memory_bytes: list[int] = []
        self.descriptors: list[int] = []
        self._end_s, self._next_s, self._rest = hours * 3600, 1.0, dict(self.kernel.values)
        self._measured_s = 0.0
        files.kernel = self.kernel
        files.obey()

    def clock_ns(self) -> int:
        """Return the simulated monotonic clock."""
        return BOOTED_NS + round(self.kernel.time_s * 10**9)

    def sleep(self, seconds: float) -> None:
        """Let the kernel work for as long as the loop sleeps."""
        assert abs(seconds - INTERVAL_NS / 10**9) < STEP_S
        kernel = self.kernel
        self.seen["polls"] += 1
        if kernel.time_s >= self._next_s:
            size, rate = KINDS[self.seen["arrivals"] % len(KINDS)]
            kernel.forget()
            kernel.bursts = [Burst(kernel.time_s, size * MIB, rate * MIB)]
            self.seen["arrivals"] += 1
            self._next_s += EVERY_S
        if kernel.bursts or kernel.held_bytes > kernel.at.background_bytes:
            for _ in range(POLL_STEPS):
                kernel.step()
            if len(kernel.returned_s) == len(kernel.bursts):
                kernel.bursts = []
        else:
            kernel.run(0)
            self._expire()
            kernel.time_s += POLL_STEPS * STEP_S
        self.files.put_thresholds()
        self._check()

    def _expire(self) -> None:
        """Write what is below the background threshold, which the kernel does by its age."""
        (volume,) = self.kernel.volumes
        moved = min(volume.dirty_bytes, volume.rate_bytes_per_s * POLL_STEPS * STEP_S)
        volume.dirty_bytes -= moved
        volume.writeback_bytes += moved
        volume.write(POLL_STEPS * STEP_S)

    def _check(self) -> None:
        time_s = self.kernel.time_s
        is_raised = self.kernel.values != self._rest
        self.seen["raised polls"] += is_raised
        if time_s % EVERY_S > AT_REST_S and is_raised:
            raise AssertionError(f"raised after {time_s:.0f} s: {self.kernel.values}")
        if time_s - self._measured_s >= 3600:
            self._measured_s = time_s
            gc.collect()
            self.memory_bytes.append(tracemalloc.get_traced_memory()[0])
            self.descriptors.append(len(os.listdir("/proc/self/fd")))
        if time_s >= self._end_s:
            self.stop.set()

    def burst(self, account: object) -> None:
        """A burst was raised and has ended."""
        self.seen["bursts"] += 1

    def changed(self, changed: object) -> None:
        """No other program changes anything here."""
        raise AssertionError(changed)

    def raised(self, is_raised: bool) -> None:
        """Thresholds were raised, or lowered."""
        self.seen["raises"] += is_raised

    def alive(self) -> None:
        """The loop is working."""


def main() -> None:
    """Run the day and print its figures."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else HOURS
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="writewise-day-") as folder:
        os.environ["WRITEWISE_STATE_DIRECTORY"] = str(Path(folder, "state"))
        files, stop = Files(Path(folder, "root")), Stop()
        files.put("/proc/pressure/memory", "some avg10=0.00 total=0\nfull avg10=0.00 total=0")
        day = Day(files, hours, stop)
        before = files.values()
        debugfs = os.open(files.path("/debug"), os.O_RDONLY | os.O_DIRECTORY)
        volumes = VolumeReader([NamedVolume("/data", _BACKING)], debugfs, day.clock_ns)
        reader = HostReader(volumes.read, files.root, day.clock_ns)
        tracemalloc.start()
        with governing("a day", files) as host:
            clocks = {"clock_ns": day.clock_ns, "sleep": day.sleep}
            Loop(reader.read_news, RaiseLimits(2 * GIB), day, host, **clocks).run(stop)  # type: ignore[arg-type]
        left = [str(path) for path in Path(folder, "state").rglob("*.journal")]
        assert files.values() == before, "the thresholds are not the host's own"
        assert files.invalid == [], "a background threshold was not below the dirty one"
        assert left == [], left
    grown = [size - day.memory_bytes[0] for size in day.memory_bytes]
    found = {
        **day.seen,
        "writes": files.writes,
        "simulated_h": hours,
        "took_s": round(time.monotonic() - begun_s),
        "grown_bytes": grown[-1] if grown else None,
        "descriptors": sorted(set(day.descriptors)),
    }
    print(json.dumps(found), flush=True)
    assert len(set(day.descriptors)) <= 1, day.descriptors
    assert not grown or grown[-1] < GROWTH_BYTES, grown


if __name__ == "__main__":
    main()
