# SPDX-License-Identifier: Apache-2.0
"""Control groups that the tests make, in the hierarchies that this host has: version 1 or 2."""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sysctl.host.mount_table import parse_mountinfo
from tests.root.hosts import has_systemd

#: The controller's name in version 2 by that in version 1.
_IN_VERSION_2 = {"blkio": "io"}


def tops() -> dict[str, Path]:
    """Return the mount points of the hierarchies, by version 1 controller or as `cgroup2`."""
    found: dict[str, Path] = {}
    for mount in parse_mountinfo(Path("/proc/self/mountinfo").read_text()):
        names = {"cgroup2": ["cgroup2"], "cgroup": mount.super_options}.get(mount.fstype, [])
        for name in names:
            found.setdefault(name, Path(mount.target))
    return found


def named(start: str) -> set[Path]:
    """Return the groups whose names begin with `start`, without those removed meanwhile."""
    return {
        Path(folder, name)
        for top in set(tops().values())
        for folder, names, _ in os.walk(top)
        for name in names
        if name.startswith(start)
    }


@contextlib.contextmanager
def group(controller: str) -> Iterator[tuple[Path, int]]:
    """Make a group with the controller (named as in version 1); yield it and its version."""
    there = tops()
    if controller in there:
        with new(there[controller]) as made:
            yield made, 1
        return
    name = _IN_VERSION_2.get(controller, controller)
    top = there.get("cgroup2")
    if top is None or name not in (top / "cgroup.controllers").read_text().split():
        pytest.skip(f"needs a control group with {controller} or {name}: mount one")
    with enabled(top, name), new(top) as made:
        yield made, 2


def prefix(pid: int) -> str:
    """Return the prefix of the names of all groups that the tests of a process make."""
    return f"writewise-test-{pid}-"


@contextlib.contextmanager
def new(parent: Path) -> Iterator[Path]:
    """Make a group that must have no process left at the end."""
    made = parent / f"{prefix(os.getpid())}{uuid.uuid4().hex[:8]}"
    made.mkdir()
    try:
        yield made
    finally:
        made.rmdir()


@contextlib.contextmanager
def enabled(top: Path, controller: str) -> Iterator[None]:
    """Enable the controller for the groups right below `top` (version 2); restore it at the end.

    When a unit stops, systemd disables controllers that no unit requests, so a scope requests it.
    """
    if has_systemd():
        with _asked_for(controller):
            yield
        return
    control = top / "cgroup.subtree_control"
    is_enabled = controller in control.read_text().split()
    if not is_enabled:
        control.write_text(f"+{controller}")
    try:
        yield
    finally:
        if not is_enabled:
            control.write_text(f"-{controller}")


@contextlib.contextmanager
def _asked_for(controller: str) -> Iterator[None]:
    accounting = {"io": "IO", "memory": "Memory"}[controller]
    scope = ["systemd-run", "--scope", "--quiet", "--collect", "-p", f"{accounting}Accounting=yes"]
    command = [*scope, "sh", "-c", "echo there; exec sleep infinity"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "there\n"
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def limited(memory_bytes: int) -> Iterator[tuple[Path, int]]:
    """Make a group with a memory limit; yield it and its version."""
    with group("memory") as (made, version):
        file = "memory.limit_in_bytes" if version == 1 else "memory.max"
        (made / file).write_text(str(memory_bytes))
        yield made, version


@contextlib.contextmanager
def capped(device: int, write_bytes_per_s: int) -> Iterator[Path]:
    """Make a group with a limited write rate to a device (`st_dev`)."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with group("blkio") as (made, version):
        if version == 1:
            (made / "blkio.throttle.write_bps_device").write_text(f"{number} {write_bytes_per_s}")
        else:
            (made / "io.max").write_text(f"{number} wbps={write_bytes_per_s}")
        yield made


def inside(made: Path) -> list[str]:
    """Return the words that start a command in a group."""
    return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(made)]
