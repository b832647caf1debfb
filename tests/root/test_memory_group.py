"""The memory limit of a real control group, read by a process that is in it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sysctl.host.mount_table import parse_mountinfo

LIMIT_BYTES = 64 * 2**20
ASK = (
    "from sysctl.host.memory_group import memory_group; from sysctl.host.system import System; "
    "group = memory_group(System()); print(group.version, group.path, group.limit_bytes)"
)


def place() -> tuple[Path, str]:
    """Where groups with a memory limit can be made, and the file that limits one."""
    for mount in parse_mountinfo(Path("/proc/self/mountinfo").read_text()):
        if mount.fstype == "cgroup" and "memory" in mount.super_options:
            return Path(mount.target), "memory.limit_in_bytes"
        control = Path(mount.target) / "cgroup.subtree_control"
        if mount.fstype == "cgroup2" and "memory" in control.read_text().split():
            return Path(mount.target), "memory.max"
    pytest.skip("needs the memory controller of control groups: mount it")


@contextlib.contextmanager
def limited_group() -> Iterator[Path]:
    top, file = place()
    group = top / f"writewise-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / file).write_text(str(LIMIT_BYTES))
        yield group
    finally:
        group.rmdir()


def test_a_process_in_a_limited_group_reads_its_limit():
    with limited_group() as group:
        program = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group)]
        told = subprocess.run(
            [*program, sys.executable, "-c", ASK], capture_output=True, text=True, check=True
        ).stdout.split()
    assert told[0] == ("1" if "memory" in group.parts else "2")
    assert told[1].endswith(f"/{group.name}")
    assert told[2] == str(LIMIT_BYTES)
    assert not group.exists()
