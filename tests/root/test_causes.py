# SPDX-License-Identifier: Apache-2.0
"""Why writes were slow: each cause on the lab, compared with what the program itself measured."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from contracts.stats import CallStats
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSession
from profiler.lab import lab
from sysctl.host.host import Host
from tests.root import groups
from tests.root.hosts import SLOWNESS, is_emulated
from tests.root.labs import MIB, SMALL, guarded
from tests.root.profiling import contract, run

PROGRAM = Path(__file__).with_name("slow_writes.py")
#: An emulated CPU copies 30 MiB/s: the device must be slower.
RATE_BYTES_PER_S, BURST_MIB = (5 * MIB, 72) if is_emulated() else (50 * MIB, 192)
#: A burst far above these is throttled to the device's rate.
TIGHT = {"vm.dirty_bytes": 32 * MIB, "vm.dirty_background_bytes": 16 * MIB}


@dataclass(frozen=True)
class Run:
    """What the program printed, and what the probes recorded of it."""

    elapsed_s: float
    in_calls_s: float
    on_cpu_s: float
    stats: CallStats
    stall: StallStats
    writers: int

    def share(self, part_ns: int) -> float:
        return part_ns / self.stats.latency_total_ns


@dataclass(frozen=True)
class Volume:
    """A lab's volume, and the words that start a program within its cap (control groups v2)."""

    path: Path
    within_cap: list[str]


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with guarded(tmp_path), lab.running(replace(SMALL, rate_bytes_per_s=RATE_BYTES_PER_S)) as slow:
        words = groups.inside(Path(slow.cap.group)) if slow.cap.group else []
        yield Volume(Path(slow.destination), words)


@pytest.fixture
def tight(volume: Volume) -> Iterator[Volume]:
    with Host.exclusive("causes", "test") as host:
        host.set_writeback(TIGHT)
        yield volume


def measure(volume: Volume, mode: str, amount: int) -> Run:
    program = (sys.executable, "-BS", PROGRAM, mode, volume.path / mode, amount)
    with ProfileSession(contract(volume.path)) as session:
        told = json.loads(run(session, *volume.within_cap, *program))
        snapshot = session.snapshot()
    assert snapshot.losses.total == 0
    stats = snapshot.stats[0]
    # the program's own time includes waits for Python's lock if it has two threads, and always the
    # # moments in which another program has its CPU right before or after a call
    seen_by_program = pytest.approx(
        told["in_calls_s"] * 1e9, rel=0.02 if snapshot.writers == 1 else 0.15, abs=15e6 * SLOWNESS
    )
    assert stats.latency_total_ns == seen_by_program
    assert stats.on_cpu_ns >= 0
    return Run(**told, stats=stats, stall=snapshot.stall, writers=snapshot.writers)


def test_a_burst_below_freerun_is_not_throttled(volume: Volume) -> None:
    seen = measure(volume, "burst", 192)
    assert seen.share(seen.stats.throttled_ns) < 0.02
    assert seen.stats.on_cpu_ns == pytest.approx(seen.on_cpu_s * 1e9, rel=0.15)
    assert seen.writers == 1


def test_a_burst_far_above_freerun_is_throttling_and_copying(tight: Volume) -> None:
    seen = measure(tight, "burst", BURST_MIB)
    explained_s = (seen.stats.throttled_ns + seen.stats.on_cpu_ns) / 1e9
    queued_s = seen.stats.queued_ns / 1e9  # caused by other programs
    assert explained_s >= 0.95 * (seen.elapsed_s - queued_s)
    assert seen.share(seen.stats.throttled_ns) > 0.5
    # nothing else slept, so the time slept in these calls is all the time slept
    assert seen.stats.throttled_ns == pytest.approx(seen.stall.total_ns, rel=0.01)
    assert seen.stall.total_ns > 0.9 * seen.stall.planned_ns


def test_synchronous_writes_wait_for_the_device(tight: Volume) -> None:
    """Into allocated blocks: a write that extends the file also waits for the journal, a sleep."""
    with (tight.path / "dsync").open("wb") as file:
        file.write(bytes(300 * 4096))
        os.fsync(file.fileno())
    seen = measure(tight, "dsync", 300)
    assert seen.share(seen.stats.throttled_ns) < 0.02
    assert seen.share(seen.stats.device_wait_ns) > 0.5
    assert seen.share(seen.stats.sleeping_ns) < 0.1


def test_writers_of_one_inode_wait_for_its_lock(tight: Volume) -> None:
    apart = measure(tight, "apart", BURST_MIB * 2 // 3)
    fight = measure(tight, "fight", BURST_MIB * 2 // 3)
    assert (apart.writers, fight.writers) == (2, 2)
    # emulated CPUs take turns, so fewer calls meet
    assert fight.share(fight.stats.sleeping_ns) > (0.02 if is_emulated() else 0.25)
    assert apart.share(apart.stats.sleeping_ns) < 0.05
