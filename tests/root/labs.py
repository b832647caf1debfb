# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the lab and the sweep: the command, small labs, the host's state."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profiler.lab import lab
from sysctl.host.devices import Disk, disk_of, kept_values
from sysctl.host.host import Host
from sysctl.host.mount_table import Mount
from sysctl.host.probe import make_file_system
from sysctl.host.sysctls import read_dirtied_bytes, read_sysctl, read_writeback
from sysctl.host.system import System
from tests.root.hosts import SLOWNESS

SYSTEM = System()
MIB = 2**20
#: More memory than the host has, so no ballast is allocated.
ALL_MEMORY_BYTES = 1 << 50
SMALL = lab.LabSpec(
    memory_bytes=ALL_MEMORY_BYTES,
    volume_bytes=1 << 30,
    rate_bytes_per_s=200 * MIB,
    object_count=8,
    object_bytes=4 * MIB,
    first_byte_latency_s=0.002,
)
#: The same on the command line.
SMALL_UP = (
    *("lab", "up", "--memory", "1PiB", "--volume", "1GiB", "--rate", "200MiB"),
    *("--objects", "8", "--object-size", "4MiB"),
)


def host_state() -> dict[str, Any]:
    """Return everything that the lab and the sweep change, to compare before and after."""
    return {
        "sysctls": read_writeback(SYSTEM),
        "huge pages": read_sysctl(SYSTEM, "vm.nr_hugepages"),
        "mounts": sorted((m.target, m.all_options) for m in SYSTEM.mounts()),
        "loop devices": SYSTEM.run(["losetup", "--list", "--noheadings"]).splitlines(),
        "caps": caps(),
        "processes": processes(),
    }


def caps() -> list[str]:
    """Return the lines of throttle files (v1) and `io.max` (v2), in the root group and below.

    A group that another test removes meanwhile is skipped.
    """
    top = Path("/sys/fs/cgroup")
    blkio = top / "blkio"
    files = [each for group in (blkio, *_entries(blkio)) for each in _entries(group)]
    throttled = [each for each in files if each.match("blkio.throttle.*_device")]
    found = []
    for file in sorted([*throttled, *(group / "io.max" for group in _entries(top))]):
        with contextlib.suppress(OSError):
            lines = file.read_text().splitlines()
            found += [f"{file.relative_to(top)} {line}" for line in lines]
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # it is gone, or no folder
        return []


def processes() -> list[str]:
    """Return processes of the current state directory: programs, their workers and servers."""
    return processes_with(f"WRITEWISE_STATE_DIRECTORY={os.environ['WRITEWISE_STATE_DIRECTORY']}")


def processes_with(variable: str) -> list[str]:
    """Return the processes with that variable (`NAME=value`) in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(f"{process.name} {(process / 'cmdline').read_bytes()!r}")
    return found


@contextlib.contextmanager
def guarded(tmp_path: Path) -> Iterator[Path]:
    """Give the test its own state directory; at the end restore everything and compare."""
    state = tmp_path / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WRITEWISE_STATE_DIRECTORY", str(state))
        before = host_state()
        try:
            yield state
            assert_as(before)
        finally:
            take_all_back()


def assert_as(before: dict[str, Any], hint: str = "") -> None:
    """Assert that the host is as before, once an ended program has no probe attached any more.

    Until then its environment identifies it: the kernel needs 75 ms for each attachment.
    """
    wait_until(lambda: host_state() == before, 20)
    assert host_state() == before, hint


def take_all_back() -> None:
    """Restore whatever a test, failed or not, has left in the current state directory."""
    with Host.exclusive("sweep", "clean-up"):
        pass
    lab.down()


def wait_until(is_true: object, seconds: float) -> bool:
    """Return whether `is_true()` became true in time: the kernel ends some things later."""
    deadline_s = time.monotonic() + seconds * SLOWNESS
    while not is_true():  # type: ignore[operator]
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


def wait_until_nobody_writes(seconds: float = 60) -> None:
    """Wait until other programs dirty less than 1 MiB in a second; give up after `seconds`."""
    deadline_s = time.monotonic() + seconds * SLOWNESS
    while time.monotonic() < deadline_s:
        before_bytes = read_dirtied_bytes(SYSTEM)
        time.sleep(1)
        if read_dirtied_bytes(SYSTEM) - before_bytes < MIB:
            return


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "profiler.cli.main", *map(str, arguments)]


def writewise(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    options.setdefault("timeout", 60 * SLOWNESS)
    return subprocess.run(command(*arguments), capture_output=True, text=True, **options)  # type: ignore[call-overload]


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start the command; its output is one stream."""
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@contextlib.contextmanager
def sweep_elsewhere() -> Iterator[int]:
    """Hold the lock of a sweep of /data in another process; yield its process id."""
    code = (
        "from sysctl.host.host import Host\n"
        "with Host.exclusive('sweep', 'sweep of /data'):\n"
        "    print('ready', flush=True)\n"
        "    input()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.communicate("\n")


def kill_after(seconds: float, *arguments: object) -> bool:
    """Start the command and kill it after some time; return whether it was still running.

    The time is longer if the CPUs are emulated.
    """
    with start(*arguments) as process:
        try:
            process.communicate(timeout=seconds * SLOWNESS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    return process.returncode == -signal.SIGKILL


def kills_spread_over(parts: int, *arguments: object) -> Iterator[bool]:
    """Kill a `lab up` that many times, each at random in its part of the time that it takes.

    Yield whether it was still running. The caller takes the lab down each time.
    """
    begun_s = time.monotonic()
    with start(*arguments) as process:
        process.communicate()
    took_s = (time.monotonic() - begun_s) / SLOWNESS
    lab.down()
    for part in range(parts):
        yield kill_after((part + random.random()) * took_s / parts, *arguments)


def endpoint_arguments(present: lab.Lab) -> tuple[str, ...]:
    return ("--endpoint-url", present.endpoint_url, "--no-sign-request")


@contextlib.contextmanager
def lab_elsewhere(folder: Path, spec: lab.LabSpec) -> Iterator[lab.Lab]:
    """Run a lab in a state directory below `folder`, which the tests' sweeps do not see."""
    with _state_directory(folder):
        made = lab.up(spec)
    try:
        yield made
    finally:
        with _state_directory(folder):
            lab.down()


@contextlib.contextmanager
def _state_directory(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WRITEWISE_STATE_DIRECTORY", str(folder / "state"))
        yield


@contextlib.contextmanager
def lab_volume(state: Path) -> Iterator[tuple[Mount, Disk]]:
    """Make an ext4 of 32 MiB with a lab's journaled changes, in its own state directory.

    At the end its disk's knobs must have their original values; then it is taken down.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WRITEWISE_STATE_DIRECTORY", str(state))
        with Host.exclusive("lab", "volume") as host:
            host.make_directory(host.directory / "volume")
            host.make_sparse_file(host.directory / "image", 32 * MIB)
            device = host.attach_loop_device(host.directory / "image")
            make_file_system(host, "ext4", device)
            mount = host.mount(device, host.directory / "volume", "ext4")
            disk = disk_of(SYSTEM, mount)
            kept = kept_values(SYSTEM, disk)
            yield mount, disk
            with Host.exclusive("sweep", "clean-up"):
                pass
            assert kept_values(SYSTEM, disk) == kept


@contextlib.contextmanager
def volume(folder: Path, fstype: str = "xfs", options: str = "") -> Iterator[Path]:
    """Make and mount a volume for the test, without any of the project's code."""
    folder.mkdir(parents=True, exist_ok=True)
    image, target = folder / "image", folder / "mnt"
    target.mkdir()
    with image.open("wb") as file:
        file.truncate(320 * MIB)
    subprocess.run([f"mkfs.{fstype}", "-q", str(image)], check=True)
    chosen = ["-o", f"loop,{options}" if options else "loop"]
    subprocess.run(["mount", *chosen, str(image), str(target)], check=True)
    try:
        yield target
    finally:
        subprocess.run(["umount", "--recursive", str(target)], check=True)
        os.unlink(image)
