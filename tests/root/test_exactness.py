# SPDX-License-Identifier: Apache-2.0
"""Exact under load: the probes count what a program that writes without a pause counts itself.

The program is `load.c`; the kernel's accounting (`/proc/PID/io`) is a third source.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from contracts.model import SizeRange
from profiler.bpf.session import ProfileSession, ProfileSnapshot
from tests.root import load
from tests.root.hosts import SLOWNESS, cannot_run_here, leaves_out_runs
from tests.root.profiling import contract, run

MILLISECONDS = 3000
#: Each of `load.c`'s calls moves 1 to 4096 bytes.
MAX_CALL_BYTES = 4096


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not load.compiler():
        pytest.skip("no C compiler; make test installs one")
    return load.build(tmp_path_factory.mktemp("load"))


def check(snapshot: ProfileSnapshot, told: dict[str, int]) -> None:
    """Check that the rules counted all, none, and two parts, and that nothing was lost."""
    assert snapshot.losses.total == 0, snapshot.losses
    assert snapshot.in_flight == 0
    everything, nothing, small, large = snapshot.stats
    assert (everything.count, everything.bytes) == (told["calls"], told["bytes"])
    assert (told["proc_io_calls"], told["proc_io_bytes"]) == (told["calls"], told["bytes"])
    assert sum(everything.buckets) == everything.count
    assert (nothing.count, everything.failed) == (0, 0)
    assert small.count + large.count == everything.count
    assert small.bytes + large.bytes == everything.bytes
    assert small.bytes <= small.count * (MAX_CALL_BYTES // 2)


@pytest.fixture
def every_run() -> None:
    """Skip a test that is exact only if the kernel leaves out no run of a program."""
    if leaves_out_runs():
        cannot_run_here(
            "its kernel leaves out runs of programs on system calls where threads outnumber the "
            "CPUs (trace_call_bpf_faultable); another test shows that it reports them"
        )


def profiled(tmp_path: Path, program: Path, *arguments: object, host_wide: bool) -> dict[str, int]:
    """Run a plan of the program under a session; check and return what the program prints."""
    directory, elsewhere = tmp_path / "directory", tmp_path / "elsewhere"
    directory.mkdir()
    elsewhere.mkdir()
    half = MAX_CALL_BYTES // 2
    halves = SizeRange(0, half), SizeRange(half + 1)
    rules = contract(directory, elsewhere, *((directory, sizes) for sizes in halves))
    plan, *numbers = arguments
    with ProfileSession(rules, host_wide=host_wide) as session:
        told: dict[str, int] = json.loads(run(session, program, plan, directory, *numbers))
        followed, snapshot = session.threads_followed(), session.snapshot()
    assert followed == 0
    check(snapshot, told)
    return told


@pytest.mark.usefixtures("every_run")
@pytest.mark.parametrize("host_wide", [False, True], ids=["tree", "host-wide"])
def test_32_threads_that_write_without_a_pause(
    tmp_path: Path, program: Path, host_wide: bool
) -> None:
    told = profiled(tmp_path, program, "hammer", 32, MILLISECONDS, host_wide=host_wide)
    assert told["threads"] == 32
    assert told["calls"] > 100_000 / SLOWNESS


@pytest.mark.usefixtures("every_run")
@pytest.mark.parametrize("host_wide", [False, True], ids=["tree", "host-wide"])
def test_threads_and_processes_that_start_and_end_all_the_time(
    tmp_path: Path, program: Path, host_wide: bool
) -> None:
    told = profiled(tmp_path, program, "churn", 8, MILLISECONDS, host_wide=host_wide)
    assert min(told["threads"], told["processes"]) > 100 / SLOWNESS


@pytest.mark.usefixtures("every_run")
def test_a_tree_of_10000_short_processes(tmp_path: Path, program: Path) -> None:
    """They run one after the other, so threads that have ended must leave the table."""
    told = profiled(tmp_path, program, "tree", 10_000, host_wide=False)
    assert told["processes"] == 10_000


@pytest.mark.parametrize("scope", ["tree", "host-wide"])
def test_what_is_not_counted_is_told(tmp_path: Path, program: Path, scope: str) -> None:
    """With more threads than CPUs, also where the kernel leaves out runs of programs."""
    with ProfileSession(contract(tmp_path), host_wide=scope == "host-wide") as session:
        told = json.loads(run(session, program, "hammer", tmp_path, 8, MILLISECONDS))
        snapshot = session.snapshot()
    counted = snapshot.stats[0].count
    assert 0 < counted <= told["calls"] <= counted + snapshot.losses.total


@pytest.mark.usefixtures("every_run")
def test_a_tree_within_a_table_of_few_threads(tmp_path: Path, program: Path) -> None:
    """Calls that do not fit the table are losses, and the rest is exact: no call counts twice."""
    with ProfileSession(contract(tmp_path), max_threads=8) as session:
        told = json.loads(run(session, program, "tree", tmp_path, 1000))
        snapshot = session.snapshot()
    assert snapshot.losses.threads_not_followed > 0
    assert snapshot.losses.total == snapshot.losses.threads_not_followed
    assert 0 < snapshot.stats[0].count < told["calls"]
    assert snapshot.in_flight == 0


@pytest.mark.usefixtures("every_run")
def test_a_session_that_begins_and_ends_amid_the_writes(tmp_path: Path, program: Path) -> None:
    """Every call is counted, in flight, or a reported loss, at the start and at the end."""
    lasts = MILLISECONDS * SLOWNESS  # finding all threads takes time
    command = [str(program), "hammer", str(tmp_path), "32", str(lasts)]
    with ProfileSession(contract(tmp_path)) as session:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while len(os.listdir(f"/proc/{process.pid}/task")) < 33:
                assert process.poll() is None
            session.track(process.pid)
            followed, snapshot = session.threads_followed(), session.snapshot()
            output = process.communicate(timeout=20 * SLOWNESS)[0]
        assert session.threads_followed() == 0
        assert session.snapshot().in_flight == 0
    assert followed == 33
    assert 0 < snapshot.stats[0].count < json.loads(output)["calls"]
    assert snapshot.losses.total == snapshot.losses.calls_without_entry <= 32
    assert 0 <= snapshot.in_flight <= 32
