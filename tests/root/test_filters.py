# SPDX-License-Identifier: Apache-2.0
"""The kernel's filters by command name and cgroup, tested with system calls of known tasks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.bpf import loader
from profiler.bpf.cgroups import LEVELS_MAX
from profiler.bpf.filter import SOURCE, ScopeFilter
from profiler.bpf.probe import Probe
from profiler.bpf.session import ProfileSession
from tests.root import groups
from tests.root.profiling import contract, mounted, run

pytestmark = pytest.mark.side_by_side

#: No process has it (PID_MAX_LIMIT of include/linux/threads.h is 4194304), no other test uses it.
ASKED_PID = 0x7E57_F117
PR_SET_NAME = 15  # include/uapi/linux/prctl.h
LIBC = ctypes.CDLL(None)

CALLER = """
import ctypes, sys
getpgid = ctypes.CDLL(None).getpgid
for line in sys.stdin:
    comm, count = line.split()
    with open("/proc/self/comm", "w") as file:
        file.write(comm)
    for _ in range(int(count)):
        getpgid(ASKED_PID)
    print("done", flush=True)
"""


class Caller:
    """A process that makes calls on request, with a given name and from a given group."""

    def __init__(self) -> None:
        source = CALLER.replace("ASKED_PID", str(ASKED_PID))
        self.process = subprocess.Popen(
            [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def enter(self, group: Path) -> None:
        (group / "cgroup.procs").write_text(str(self.process.pid))

    def call(self, count: int, comm: str = "caller") -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{comm} {count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Count:
    """Return how many of the calls so far passed; check that every one was seen."""

    def __init__(self, module: loader.Module) -> None:
        self.words = module.map_words("asked")

    def passed(self, of: int) -> int:
        all_calls, passed = self.words
        self.words[0] = self.words[1] = 0
        assert all_calls == of
        return passed


@contextlib.contextmanager
def filtered(scope_filter: ScopeFilter) -> Iterator[Count]:
    probe = Probe(
        name="filter",
        sources=(SOURCE, str(Path(__file__).with_name("filter.bpf.c"))),
        tracepoints=("syscalls:sys_enter_getpgid",),
        members=scope_filter.members,
    )
    numbers = {**scope_filter.macros(), "ASKED_PID": ASKED_PID}
    with loader.load((probe,), numbers) as module:
        yield Count(module)


@pytest.fixture(params=["version 1", "version 2"])
def top(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Mount point of a hierarchy of control groups."""
    with VERSIONS[request.param](tmp_path) as place:
        yield place


@contextlib.contextmanager
def version_1(folder: Path) -> Iterator[Path]:
    """A hierarchy of the host, else `freezer`: version 2 never has it (it has its own freezer).

    A hierarchy without groups disappears with its mount.
    """
    there = groups.tops()
    found = next((there[name] for name in ("pids", "memory", "blkio") if name in there), None)
    if found:
        yield found
        return
    with mounted(folder / "freezer", "-t", "cgroup", "-o", "freezer", "none") as place:
        yield place


@contextlib.contextmanager
def version_2(folder: Path) -> Iterator[Path]:
    """The host's hierarchy, else one mounted for the test."""
    found = groups.tops().get("cgroup2")
    if found:
        yield found
        return
    with mounted(folder / "cgroup2", "-t", "cgroup2", "none") as place:
        yield place


VERSIONS = {"version 1": version_1, "version 2": version_2}


@contextlib.contextmanager
def new_groups(top: Path, depth: int) -> Iterator[list[Path]]:
    """Make groups one below the other; always remove them at the end."""
    with contextlib.ExitStack() as stack:
        made: list[Path] = []
        for _ in range(depth):
            made.append(stack.enter_context(groups.new(made[-1] if made else top)))
        yield made


@pytest.fixture
def callers() -> Iterator[tuple[Caller, Caller]]:
    pair = Caller(), Caller()
    try:
        yield pair
    finally:
        for caller in pair:
            caller.end()


def call_in_thread(comm: str, count: int) -> None:
    """Make calls in a thread of this process that has its own name."""

    def work() -> None:
        assert LIBC.prctl(PR_SET_NAME, ctypes.create_string_buffer(os.fsencode(comm))) == 0
        for _ in range(count):
            LIBC.getpgid(ASKED_PID)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_without_a_filter_every_task_passes(callers: tuple[Caller, Caller]) -> None:
    with filtered(ScopeFilter()) as count:
        callers[0].call(20)
        callers[1].call(3, comm="other")
        assert count.passed(of=23) == 23


class TestComm:
    @pytest.mark.parametrize(
        ("comm", "other"),
        [
            ("w", "W"),
            ("w", ""),
            ("w", "ww"),
            ("8 bytes.", "8 bytes"),
            ("8 bytes.", "8 bytes.x"),
            ("8 bytes.x", "8 bytes."),
            ("größe€€", "größe€"),
            ("fifteen_bytes_x", "fifteen_bytes_"),
            ("fifteen_bytes_x", "fifteen_bytes_y"),
        ],
    )
    def test_only_the_exact_name_passes(self, comm: str, other: str) -> None:
        with filtered(ScopeFilter(comm=comm)) as count:
            call_in_thread(comm, 7)
            assert count.passed(of=7) == 7
            call_in_thread(other, 5)
            assert count.passed(of=5) == 0

    def test_the_kernel_cuts_a_longer_name(self) -> None:
        with filtered(ScopeFilter(comm="fifteen_bytes_x")) as count:
            call_in_thread("fifteen_bytes_xyz", 3)
            assert count.passed(of=3) == 3

    def test_it_is_the_threads_name_and_not_its_process(self) -> None:
        own = Path("/proc/self/comm").read_text().rstrip("\n")
        with filtered(ScopeFilter(comm=own)) as count:
            call_in_thread("pool-1", 4)
            assert count.passed(of=4) == 0
            call_in_thread(own, 4)
            assert count.passed(of=4) == 4

    def test_a_new_name_counts_from_then_on(self, callers: tuple[Caller, Caller]) -> None:
        with filtered(ScopeFilter(comm="renamed")) as count:
            for comm, passed in (("caller", 0), ("renamed", 6), ("renamed2", 0)):
                callers[0].call(6, comm)
                assert count.passed(of=6) == passed


class TestCgroup:
    def test_inside_below_and_outside(self, top: Path, callers: tuple[Caller, Caller]) -> None:
        inside, outside = callers
        with new_groups(top, 3) as (above, group, below):
            try:
                with filtered(ScopeFilter(cgroup=str(group))) as count:
                    for place, passed in ((above, 0), (group, 11), (below, 11), (above, 0)):
                        inside.enter(place)
                        inside.call(11)
                        outside.call(5)
                        assert count.passed(of=16) == passed, place
            finally:
                inside.end()

    def test_a_sibling_is_outside(self, top: Path, callers: tuple[Caller, Caller]) -> None:
        with new_groups(top, 2) as (above, group):
            sibling = above / "sibling"
            sibling.mkdir()
            try:
                callers[0].enter(sibling)
                with filtered(ScopeFilter(cgroup=str(group))) as count:
                    callers[0].call(9)
                    assert count.passed(of=9) == 0
            finally:
                callers[0].end()
                sibling.rmdir()

    def test_everybody_is_below_the_root(self, top: Path, callers: tuple[Caller, Caller]) -> None:
        with filtered(ScopeFilter(cgroup=str(top))) as count:
            callers[0].call(8)
            assert count.passed(of=8) == 8

    def test_both_filters_must_be_passed(self, top: Path, callers: tuple[Caller, Caller]) -> None:
        inside, outside = callers
        with new_groups(top, 1) as (group,):
            try:
                inside.enter(group)
                with filtered(ScopeFilter(comm="writer", cgroup=str(group))) as count:
                    for caller, comm, passed in (
                        (inside, "writer", 10),
                        (inside, "reader", 0),
                        (outside, "writer", 0),
                        (outside, "reader", 0),
                    ):
                        caller.call(10, comm)
                        assert count.passed(of=10) == passed, comm
            finally:
                inside.end()


def test_groups_of_other_hierarchies_do_not_matter(
    callers: tuple[Caller, Caller], tmp_path: Path
) -> None:
    with (
        version_1(tmp_path) as one,
        version_2(tmp_path) as two,
        new_groups(one, 1) as (group,),
        new_groups(two, 1) as (other,),
    ):
        try:
            callers[0].enter(other)
            with filtered(ScopeFilter(cgroup=str(group))) as count:
                callers[0].call(5)
                assert count.passed(of=5) == 0
            callers[0].enter(group)
            with filtered(ScopeFilter(cgroup=str(other))) as count:
                callers[0].call(5)
                assert count.passed(of=5) == 5
        finally:
            callers[0].end()


def test_how_far_below_a_group_counts(top: Path, callers: tuple[Caller, Caller]) -> None:
    """Version 1 counts down to a bound, version 2 at any depth."""
    is_version_2 = (top / "cgroup.controllers").exists()
    with new_groups(top, LEVELS_MAX + 1) as groups:
        try:
            with filtered(ScopeFilter(cgroup=str(groups[0]))) as count:
                for below, passed in ((LEVELS_MAX - 1, 2), (LEVELS_MAX, 2 * is_version_2)):
                    callers[0].enter(groups[below])
                    callers[0].call(2)
                    assert count.passed(of=2) == passed, below
        finally:
            callers[0].end()


def to(directory: Path, writes: int) -> list[str]:
    """Return dd's arguments for so many writes of one byte."""
    return ["if=/dev/zero", f"of={directory}/file", "bs=1", f"count={writes}", "status=none"]


@pytest.mark.parametrize("host_wide", [False, True], ids=["tree", "host-wide"])
def test_a_session_counts_what_passes_all_filters(
    top: Path, host_wide: bool, tmp_path: Path
) -> None:
    """Process tree or host, path, name and group: only writes that match all of them count."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    renamed = tmp_path / "dd2"
    renamed.symlink_to(shutil.which("dd") or "")
    with new_groups(top, 2) as (group, below):
        scope_filter = ScopeFilter(comm="dd", cgroup=str(group))
        rules = contract(inside)
        with ProfileSession(rules, host_wide=host_wide, scope_filter=scope_filter) as session:
            for place in (group, below):
                run(session, *groups.inside(place), "dd", *to(inside, 10))
                run(session, *groups.inside(place), "dd", *to(outside, 1000))
                run(session, *groups.inside(place), renamed, *to(inside, 1000))
            run(session, *groups.inside(top), "dd", *to(inside, 1000))
            not_of_the_tree = [*groups.inside(group), "dd", *to(inside, 300)]
            subprocess.run(not_of_the_tree, check=True)
            snapshot = session.snapshot()
    expected = 2 * 10 + (300 if host_wide else 0)
    assert [stats.count for stats in snapshot.stats] == [expected]


def test_what_a_filter_keeps_out_is_no_loss(tmp_path: Path) -> None:
    with ProfileSession(contract(tmp_path), scope_filter=ScopeFilter(comm="nobody")) as session:
        run(session, "dd", *to(tmp_path, 1000))
        snapshot = session.snapshot()
    assert [stats.count for stats in snapshot.stats] == [0]
    assert (snapshot.losses.total, snapshot.in_flight) == (0, 0)
