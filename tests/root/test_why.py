# SPDX-License-Identifier: Apache-2.0
"""Real writes explained: session, timeline and disk together, on a test volume."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.causes import Cause
from profiler.bpf.disks import devices_of
from profiler.bpf.probes.block import DeviceCounters
from profiler.bpf.session import ProfileSession
from profiler.report.why import CauseText, explain
from profiler.watch.causes import WhyInputs
from profiler.watch.timeline import Timeline, TimelineRecorder
from profiler.watch.write_calls import widest_writes
from tests.root.profiling import contract, mounted, run
from tests.root.test_block import counting, loop_device

MIB = 2**20


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """An ext4 on a loop device, clean."""
    with loop_device(tmp_path / "image", 256 * MIB) as node:
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", str(node)], check=True)
        with mounted(tmp_path / "volume", node) as mount:
            subprocess.run(["sync", "-f", str(mount)], check=True)
            yield mount


class Observed:
    """What a program did on the volume, as the report shows it."""

    def __init__(self, volume: Path, program: str) -> None:
        (self.device,) = devices_of([str(volume)])
        rules = contract(volume)
        with contextlib.ExitStack() as stack:
            counters: DeviceCounters = stack.enter_context(counting(self.device))
            session = stack.enter_context(ProfileSession(rules))
            before = counters.stats()[0]
            with TimelineRecorder([self.device.name], counters.totals) as recorder:
                run(session, sys.executable, "-BSc", program, volume)
            self.snapshot = session.snapshot()
            self.requests = counters.stats()[0].since(before)
        self.timeline: Timeline = recorder.timeline()
        (slot,) = rules.slots
        self.calls = widest_writes({slot: self.snapshot.stats[0]})

    def explain(self) -> CauseText:
        return explain(
            WhyInputs(
                calls=self.calls.stats,
                elapsed_ns=self.snapshot.elapsed_ns,
                stall=self.snapshot.stall,
                call_types=self.calls.call_types,
                writers=1,
                timeline=self.timeline,
                devices=((self.device, self.requests),),
            )
        )


def test_a_synchronous_writer_waits_for_the_device(volume: Path) -> None:
    """It overwrites allocated blocks, so it does not wait for a commit of the journal."""
    with (volume / "file").open("wb") as file:
        file.write(bytes(150 * 65536))
        os.fsync(file.fileno())
    program = (
        "import os, sys\nfd = os.open(sys.argv[1] + '/file', os.O_WRONLY | os.O_DSYNC)\n"
        "for _ in range(150): os.write(fd, bytes(65536))"
    )
    seen = Observed(volume, program)
    explanation = seen.explain()
    assert explanation.cause is Cause.DEVICE, explanation
    assert " for the device: they write through to it" in explanation.sentence
    assert sum(part.time_ns for part in explanation.parts) == seen.calls.stats.latency_total_ns
    assert all(0 <= part.share <= 1 for part in explanation.parts)
    assert seen.calls.stats.bytes == 150 * 65536  # the last call returns when all is on the device
    assert 150 * 65536 <= seen.timeline.written_bytes(0) <= seen.requests.writes.bytes
    assert explanation.blind_spots == ()


def test_stores_to_a_mapped_file_are_a_blind_spot_that_is_named(volume: Path) -> None:
    program = (
        "import mmap, os, sys\n"
        "with open(sys.argv[1] + '/file', 'w+b') as file:\n"
        "    file.truncate(64 << 20)\n"
        "    mapped = mmap.mmap(file.fileno(), 64 << 20)\n"
        "    mapped[:] = b'x' * (64 << 20)\n"
        "    mapped.flush()"
    )
    seen = Observed(volume, program)
    assert seen.calls.stats.bytes == 0
    assert seen.requests.writes.bytes >= 64 * MIB
    (line,) = [line for line in seen.explain().blind_spots if line.startswith("The device wrote")]
    assert " MiB more than was counted: stores to mapped files" in line


def test_the_timeline_sees_what_is_dirty_and_the_device_not_yet(volume: Path) -> None:
    program = (
        "import os, sys, time\nwith open(sys.argv[1] + '/file', 'wb') as file:\n"
        "    file.write(os.urandom(1 << 20) * 64)\ntime.sleep(0.3)"
    )
    seen = Observed(volume, program)
    timeline = seen.timeline
    assert seen.calls.stats.bytes == 64 * MIB
    written_bytes = seen.requests.writes.bytes
    # other programs that dirty or flush memory change the sum a little
    assert timeline.peak_added_bytes + written_bytes >= 60 * MIB
    gaps_ns = [b.time_ns - a.time_ns for a, b in timeline.pairs()]
    assert sorted(gaps_ns)[len(gaps_ns) // 2] <= 100_000_000  # 10 Hz or more
    assert timeline.last.thresholds.freerun_bytes > timeline.last.thresholds.background_bytes > 0
