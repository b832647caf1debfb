# SPDX-License-Identifier: Apache-2.0
"""`writewise govern --admit` on the real kernel: whose bursts raise, and what a group's limit does.

On hosts with control groups of version 2 the writers are in groups below the lab's own, because
only their writes are capped.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from profiler.lab import lab
from tests.root import groups
from tests.root.governing import (
    BOUNDED,
    RATE_MIB_PER_S,
    REST,
    SIZE_MIB,
    Outside,
    burst,
    governor,
    in_force,
    start_burst,
    throttled_lab,
    wait_until_drained,
    without_dirty_pages,
)
from tests.root.hosts import is_emulated
from tests.root.labs import MIB, wait_until

LIMIT_BYTES = 64 * MIB
ADMITTED, OTHER = "ww-admitted", "ww-other"
#: Capabilities that a program of the kernel needs (include/uapi/linux/capability.h).
SYS_ADMIN, PERFMON, BPF = 21, 38, 39


@pytest.fixture(scope="module")
def host_at_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    """A capped volume, on a host whose own thresholds are small."""
    folder = tmp_path_factory.mktemp("admit")
    with throttled_lab(folder) as present, controllers_below(present.cap.group):
        yield present


@contextlib.contextmanager
def controllers_below(group: str | None) -> Iterator[None]:
    """Let the groups below the lab's group of version 2 have controllers of their own."""
    if group is None:
        yield
        return
    control = Path(group, "cgroup.subtree_control")
    control.write_text("+memory +io")
    try:
        yield
    finally:
        control.write_text("-memory -io")


@pytest.fixture
def present(host_at_rest: lab.Lab) -> Iterator[lab.Lab]:
    """The same, without dirty pages before and after the test."""
    with without_dirty_pages(host_at_rest) as present:
        yield present


@pytest.fixture
def python(tmp_path: Path) -> dict[str, Sequence[str]]:
    """Python under two names, as words that start it."""
    for name in (ADMITTED, OTHER):
        (tmp_path / name).symlink_to(os.path.realpath(sys.executable))
    return {name: (str(tmp_path / name),) for name in (ADMITTED, OTHER)}


def top(present: lab.Lab) -> Path:
    """Return the group below which the writers' groups are made."""
    return Path(present.cap.group) if present.cap.group else groups.tops()["memory"]


def path_of(group: Path) -> str:
    """Return a group's path as in /proc/PID/cgroup."""
    mounted = next(each for each in groups.tops().values() if group.is_relative_to(each))
    return f"/{group.relative_to(mounted)}"


@contextlib.contextmanager
def group(present: lab.Lab) -> Iterator[Path]:
    """Make a group whose writers are capped."""
    with groups.new(top(present)) as made:
        yield made


def write(
    present: lab.Lab, python: Sequence[str], made: Path, mib_per_s: float = RATE_MIB_PER_S
) -> None:
    """Make a burst in a group, into a new file."""
    there = len(list(Path(present.destination).glob("burst*")))
    path = Path(present.destination, f"burst{there}")
    words = [*groups.inside(made), *python]
    burst(path, SIZE_MIB, mib_per_s, words)


def drained() -> None:
    """Wait until the host is at rest, with half a second for the governor to see it."""
    wait_until_drained(REST["vm.dirty_background_bytes"])
    assert wait_until(lambda: in_force() == REST, 4)
    time.sleep(0.5)


def end(process: subprocess.Popen[str]) -> list[str]:
    """End a governor and return its lines."""
    process.terminate()
    text, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    return text.splitlines()


def is_raised(outside: Outside) -> bool:
    """Return whether the thresholds were raised, and forget what was seen."""
    seen, outside.seen = outside.seen, []
    assert seen
    return any(each.values != REST for each in seen)


def test_only_programs_of_the_admitted_name_raise(present: lab.Lab, python) -> None:
    with (
        group(present) as made,
        governor(present.destination, *BOUNDED, "--admit", f"comm={ADMITTED}") as process,
        Outside().looking() as outside,
    ):
        write(present, python[OTHER], made)
        drained()
        assert not is_raised(outside)
        write(present, python[ADMITTED], made)
        drained()
        assert is_raised(outside)
        lines = end(process)
    assert all(f" by {ADMITTED} onto " in line for line in lines[:-1]), lines


def test_the_children_of_an_admitted_program_count(present: lab.Lab, python, tmp_path) -> None:
    """A shell of the admitted name starts the writer, and waits for it."""
    shell = tmp_path / "ww-shell"
    shell.symlink_to(os.path.realpath("/bin/sh"))
    with (
        group(present) as made,
        governor(present.destination, *BOUNDED, "--admit", "comm=ww-shell") as process,
        Outside().looking() as outside,
    ):
        write(present, [str(shell), "-c", '"$0" "$@"; true', *python[OTHER]], made)
        drained()
        assert is_raised(outside)
        lines = end(process)
    assert " by ww-shell onto " in lines[0]


def test_only_the_admitted_group_raises_also_when_it_is_made_anew(present: lab.Lab, python) -> None:
    with group(present) as other, group(present) as made:
        path = path_of(made)
        with (
            governor(present.destination, *BOUNDED, "--admit", f"cgroup={path}") as process,
            Outside().looking() as outside,
        ):
            write(present, python[ADMITTED], other)
            drained()
            assert not is_raised(outside)
            for _ in range(2):
                inode = made.stat().st_ino
                write(present, python[ADMITTED], made)
                drained()
                assert is_raised(outside)
                made.rmdir()
                time.sleep(1)
                made.mkdir()
                assert made.stat().st_ino != inode
            lines = end(process)
    assert len(lines) >= 3, lines
    assert all(f" by {path} onto " in line for line in lines[:-1]), lines


def test_a_group_that_is_made_later_counts(present: lab.Lab, python) -> None:
    path = path_of(top(present) / f"{groups.prefix(os.getpid())}later")
    with (
        governor(present.destination, *BOUNDED, "--admit", f"cgroup={path}") as process,
        Outside().looking() as outside,
    ):
        made = top(present) / Path(path).name
        made.mkdir()
        try:
            write(present, python[ADMITTED], made)
            drained()
        finally:
            made.rmdir()
        assert is_raised(outside)
        assert f" by {path} onto " in "".join(end(process))


def test_nothing_is_raised_for_a_group_that_its_own_limit_throttles(
    present: lab.Lab, python
) -> None:
    with group(present) as made:
        file = "memory.max" if present.cap.group else "memory.limit_in_bytes"
        (made / file).write_text(str(LIMIT_BYTES))
        if (made / "memory.oom_control").exists():  # version 1: wait in place of an OOM kill
            (made / "memory.oom_control").write_text("1")
        path = path_of(made)
        with (
            governor(present.destination, *BOUNDED, "--admit", f"cgroup={path}") as process,
            Outside().looking() as outside,
        ):
            write(present, python[ADMITTED], made)
            drained()
            assert not is_raised(outside)
            lines = end(process)
    assert f"burst by {path}: nothing is raised" in lines[0]
    assert len(lines) == 2


def test_without_admission_the_program_is_named(present: lab.Lab, python) -> None:
    """Two looks at all processes must fall into the burst; on emulated CPUs they are rarer."""
    rate = RATE_MIB_PER_S / 10 if is_emulated() else RATE_MIB_PER_S
    with group(present) as made, governor(present.destination, *BOUNDED) as process:
        write(present, python[OTHER], made, rate)
        drained()
        lines = end(process)
    assert f" by {OTHER} onto " in lines[0]


def test_the_governor_has_no_program_in_the_kernel(present: lab.Lab, python) -> None:
    """At rest and during a raise it has events at most, and no capability for programs."""
    with group(present) as made, governor(present.destination, *BOUNDED) as process:
        found = links(process.pid)
        words = [*groups.inside(made), *python[OTHER]]
        path = Path(present.destination, "burst")
        writer = start_burst(path, SIZE_MIB, RATE_MIB_PER_S, words)
        assert wait_until(lambda: in_force() != REST, 10)
        found |= links(process.pid)
        writer.communicate(timeout=60)
        status = Path(f"/proc/{process.pid}/status").read_text()
        drained()
    assert any(each.endswith("/vmstat") for each in found)
    assert not [each for each in found if "bpf" in each]
    effective = int(status.split("CapEff:")[1].split()[0], 16)
    assert not [number for number in (SYS_ADMIN, PERFMON, BPF) if effective >> number & 1]


def links(pid: int) -> set[str]:
    """Return what the open files of a process are."""
    return {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
