"""What the tests of the lab and the sweep share: the command, small labs, and the host's state."""

from __future__ import annotations

import contextlib
import os
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
from sysctl.host.sysctls import read_sysctl, read_writeback
from sysctl.host.system import System
from tests.root.hosts import SLOWNESS

SYSTEM = System()
MIB = 2**20
#: More memory than the host has: no ballast is taken.
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
    """Everything that the lab and the sweep change, to be compared before and after."""
    return {
        "sysctls": read_writeback(SYSTEM),
        "huge pages": read_sysctl(SYSTEM, "vm.nr_hugepages"),
        "mounts": sorted((m.target, m.all_options) for m in SYSTEM.mounts()),
        "loop devices": SYSTEM.run(["losetup", "--list", "--noheadings"]).splitlines(),
        "caps": caps(),
        "processes": processes(),
    }


def caps() -> list[str]:
    """The lines of the throttle files (v1) and of `io.max` (v2), of the root group and below it."""
    top = Path("/sys/fs/cgroup")
    names = ("blkio/blkio.throttle.*_device", "blkio/*/blkio.throttle.*_device", "*/io.max")
    files = sorted(file for name in names for file in top.glob(name))
    return [
        f"{file.relative_to(top)} {line}"
        for file in files
        for line in file.read_text().splitlines()
    ]


def processes() -> list[str]:
    """Processes started under the present state directory: programs, their workers and servers."""
    return processes_with(f"WRITEWISE_STATE_DIRECTORY={os.environ['WRITEWISE_STATE_DIRECTORY']}")


def processes_with(variable: str) -> list[str]:
    """Processes with that variable in their environment, as in `NAME=value`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(f"{process.name} {(process / 'cmdline').read_bytes()!r}")
    return found


@contextlib.contextmanager
def guarded(tmp_path: Path) -> Iterator[Path]:
    """A state directory of the test's own; at the end all is taken back and compared."""
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
    """The host is as it was, as soon as a program that has ended has no probe attached any more.

    It is known by its environment until then: the kernel takes 75 ms for each attachment.
    """
    wait_until(lambda: host_state() == before, 20)
    assert host_state() == before, hint


def take_all_back() -> None:
    """Restore whatever a test, failed or not, has left in the present state directory."""
    with Host.exclusive("sweep", "clean-up"):
        pass
    lab.down()


def wait_until(is_true: object, seconds: float) -> bool:
    """Whether `is_true()` came true in time; for what the kernel ends a moment later."""
    deadline_s = time.monotonic() + seconds * SLOWNESS
    while not is_true():  # type: ignore[operator]
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


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


def kill_after(seconds: float, *arguments: object) -> bool:
    """Start the command, SIGKILL it after a while; whether it was still running.

    The while is longer where CPUs are emulated.
    """
    with start(*arguments) as process:
        try:
            process.communicate(timeout=seconds * SLOWNESS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    return process.returncode == -signal.SIGKILL


def endpoint_arguments(present: lab.Lab) -> tuple[str, ...]:
    return ("--endpoint-url", present.endpoint_url, "--no-sign-request")


@contextlib.contextmanager
def lab_elsewhere(folder: Path, spec: lab.LabSpec) -> Iterator[lab.Lab]:
    """A lab in a state directory below `folder`, which the sweeps of the tests do not see."""
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
    """An ext4 of 32 MiB made by a lab's journaled changes, in a state directory of its own.

    At the end its disk's knobs must be as they were; then it is taken down.
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
    """A mounted volume of the test's own, made without any of the project's code."""
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
