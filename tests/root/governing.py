# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests and the benchmark of the governor: a burst, the host seen from outside."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler.govern.volumes import counts_every_group, named_volumes, opened_volumes
from profiler.lab import lab
from sysctl.host.host import WRITER, Host
from sysctl.host.sysctls import read_dirty_bytes, read_thresholds, read_writeback
from sysctl.host.system import System
from sysctl.knobs.vm import THRESHOLDS
from tests.root import groups
from tests.root.hosts import cannot_run_here, is_emulated
from tests.root.labs import (
    ALL_MEMORY_BYTES,
    MIB,
    SYSTEM,
    command,
    guarded,
    wait_until_nobody_writes,
)

#: The host's own thresholds are small here, so that bursts of 300 MiB are throttled at rest.
REST = {"vm.dirty_bytes": 96 * MIB, "vm.dirty_background_bytes": 48 * MIB}
BOUND = 512 * MIB
SIZE_MIB, RATE_MIB_PER_S = 300, 300
BOUNDED = ("--max-at-risk", f"{BOUND // MIB}MiB")
SPEC = lab.LabSpec(
    memory_bytes=ALL_MEMORY_BYTES,
    volume_bytes=2 << 30,
    rate_bytes_per_s=(15 if is_emulated() else 60) * MIB,  # far less than writers can write
    object_count=1,
    object_bytes=MIB,
)
PACED = Path(__file__).with_name("paced.py")
_LOOK_S = 0.02


@contextlib.contextmanager
def throttled_lab(folder: Path) -> Iterator[lab.Lab]:
    """Yield a lab with a capped volume, on a host whose own thresholds are small."""
    with (
        guarded(folder),
        lab.running(SPEC) as present,
        Host.exclusive("present", "test") as host,
    ):
        host.set_writeback(REST)
        yield present


@contextlib.contextmanager
def small_thresholds(folder: Path) -> Iterator[lab.Lab]:
    """Yield a throttled lab whose writers the governor sees; skip the test on other kernels."""
    with throttled_lab(folder) as present:
        if present.cap.group and not _sees_every_group(present):
            cannot_run_here(
                "its kernel (before 6.10) shows only the pages of the root control group, and the "
                "lab caps another group; tests/guests/inside/test_governor.py runs there"
            )
        yield present


def _sees_every_group(present: lab.Lab) -> bool:
    named = named_volumes([Path(present.destination)], SYSTEM.mounts())
    with opened_volumes(named) as (volumes, debugfs):
        return counts_every_group(volumes, debugfs)


def capped(present: lab.Lab) -> list[str]:
    """Return the words that start Python where the volume's cap holds (control groups v2)."""
    within = groups.inside(Path(present.cap.group)) if present.cap.group else []
    return [*within, sys.executable]


def in_force() -> dict[str, int]:
    """Return the threshold sysctls in force on this host."""
    return thresholds(SYSTEM)


def file_on(present: lab.Lab) -> Path:
    """Return the file that a burst writes."""
    return Path(present.destination, "burst")


@dataclass(frozen=True)
class Seen:
    """The host at a moment of the monotonic clock (s)."""

    time_s: float
    held_bytes: int
    background_bytes: int
    dirty_bytes: int
    values: dict[str, int]


@dataclass
class Outside:
    """Looks at the host every 20 ms, in a thread."""

    seen: list[Seen] = field(default_factory=list)

    @contextlib.contextmanager
    def looking(self) -> Iterator[Outside]:
        """Look within the block."""
        stop = threading.Event()

        def look() -> None:
            system = System()
            while not stop.wait(_LOOK_S):
                at = read_thresholds(system)
                held_bytes = read_dirty_bytes(system)
                values = thresholds(system)
                moment = Seen(
                    time.monotonic(), held_bytes, at.background_bytes, at.dirty_bytes, values
                )
                self.seen.append(moment)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()


def thresholds(system: System) -> dict[str, int]:
    """Return the threshold sysctls in force."""
    return {n: v for n, v in read_writeback(system).items() if n in THRESHOLDS}


@contextlib.contextmanager
def governor(*options: object) -> Iterator[subprocess.Popen[str]]:
    """Run `writewise govern` from when it is ready; SIGTERM at the end, unless it has ended."""
    words = command("govern", *options)
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert process.stdout
        first = process.stdout.readline()
        assert "govern" in first, first + process.communicate()[1]
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        if process.poll() is None:
            process.kill()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def start_burst(
    path: Path, mib: int, mib_per_s: float, python: Sequence[str] = (sys.executable,)
) -> subprocess.Popen[str]:
    """Start a writer, which begins at once; `python` are the words that start Python."""
    words = [*python, str(PACED), str(path), str(mib), str(mib_per_s)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()
    return process


def burst(
    path: Path, mib: int, mib_per_s: float, python: Sequence[str] = (sys.executable,)
) -> dict[str, float]:
    """Write a file at a rate; return what `paced.py` prints."""
    text, _ = start_burst(path, mib, mib_per_s, python).communicate(timeout=120)
    return dict(json.loads(text))


def wait_until_drained(limit_bytes: int, seconds: float = 60) -> None:
    """Wait until the host holds less; fail after some time."""
    deadline_s = time.monotonic() + seconds
    while read_dirty_bytes(System()) > limit_bytes:
        assert time.monotonic() < deadline_s, "the volume does not drain"
        time.sleep(_LOOK_S)


@contextlib.contextmanager
def without_dirty_pages(present: lab.Lab) -> Iterator[lab.Lab]:
    """Yield the lab when nobody writes, and remove what the bursts of the block wrote."""
    wait_until_nobody_writes(20)
    yield present
    remove_files(present)


def remove_files(present: lab.Lab, journal: str = WRITER) -> None:
    """Delete what the bursts wrote, and leave no dirty page of it.

    Under a governor, which holds the lock of every writer, another journal is needed.
    """
    with Host.exclusive(journal, "test") as host, lab.uncapped(present, host):
        for path in Path(present.destination).glob("burst*"):
            path.unlink()
        subprocess.run(["sync", "-f", present.destination], check=True)


def at_rest_after_s(seen: list[Seen], own: dict[str, int], background_bytes: int) -> float:
    """Return how long after the drain the thresholds were at rest again (s), 0 if before it."""
    drained_s = max((each.time_s for each in seen if each.held_bytes > background_bytes), default=0)
    raised_s = max((each.time_s for each in seen if each.values != own), default=0.0)
    return max(0.0, raised_s - drained_s)


def document_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """End a governor with --json, and return its document."""
    process.terminate()
    text, _ = process.communicate(timeout=20)
    return dict(json.loads(text))
