# SPDX-License-Identifier: Apache-2.0
"""The governor as a service of systemd, and bursts onto the guest's slow volume."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from profiler.govern.volumes import counts_every_group, named_volumes, opened_volumes
from sysctl.apply.governor_unit import UNIT
from sysctl.host.sysctls import sysctl_path
from tests.guests.inside import services
from tests.root.governing import PACED, in_force
from tests.root.labs import SYSTEM, wait_until

#: The disk that QEMU throttles to 20 MiB/s (`tests.guests.machine`).
SLOW = "/dev/vdb"
#: The host's own values: writers of a burst soon wait. Ratios, as most hosts have them.
REST = {"vm.dirty_ratio": 4, "vm.dirty_background_ratio": 2}
BOUND_MIB, SIZE_MIB = 768, 300
#: What the unit's watchdog needs to see a governor that hangs.
WATCHDOG_S = 3
_FAST = 10_000  # MiB/s: as fast as this CPU writes


def is_raised() -> bool:
    """Return whether other thresholds than the host's own are in force."""
    return in_force() != REST


@contextlib.contextmanager
def own_thresholds() -> Iterator[None]:
    """Set low thresholds as the host's own within the block."""
    before = in_force()
    for name, value in REST.items():
        SYSTEM.write(sysctl_path(name), str(value))
    try:
        yield
    finally:
        for name, value in before.items():
            SYSTEM.write(sysctl_path(name), str(value))


@contextlib.contextmanager
def service(target: Path, bound_mib: int = BOUND_MIB) -> Iterator[None]:
    """Start the service and wait until it is ready; remove it at the end."""
    with services.started(UNIT, "govern", target, "--max-at-risk", f"{bound_mib}MiB"):
        yield


def shown(name: str) -> str:
    """Return a property of the service, as `systemctl show` prints it."""
    return services.shown(UNIT, name)


def is_active() -> bool:
    """Return whether the service is ready."""
    return shown("ActiveState") == "active"


def said() -> str:
    """Return the last lines in the journal of the service."""
    return services.said(UNIT)


def writer_words(path: Path, mib: int = SIZE_MIB) -> Sequence[str]:
    """Return the command of a burst that runs in a control group of its own, as a container does.

    Linux before 6.10 shows the governor only the pages of the root control group.
    """
    words = [sys.executable, str(PACED), str(path), str(mib), str(_FAST)]
    named = named_volumes([path.parent], SYSTEM.mounts())
    with opened_volumes(named) as (volumes, debugfs):
        if counts_every_group(volumes, debugfs):
            return ["systemd-run", "--scope", "--quiet", "--collect", "--", *words]
    return ["sh", "-c", 'echo $$ >/sys/fs/cgroup/cgroup.procs && exec "$@"', "writer", *words]


@contextlib.contextmanager
def burst(path: Path, mib: int = SIZE_MIB) -> Iterator[subprocess.Popen[str]]:
    """Write a file; its pages are dropped at the end."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(writer_words(path, mib), **pipes)  # type: ignore[call-overload]
    process.stdin.write("\n")
    process.stdin.flush()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def raised(target: Path, mib: int = SIZE_MIB) -> Iterator[int]:
    """Yield the governor's process id once it has raised the thresholds for a burst."""
    pid = int(shown("MainPID"))
    with burst(target / "burst", mib):
        assert wait_until(is_raised, 5), said()
        yield pid


def at_rest_after_s(begun_s: float, limit_s: float = 10) -> float:
    """Return how long after a time the host's own thresholds were in force again."""
    assert wait_until(lambda: not is_raised(), limit_s), said()
    return time.monotonic() - begun_s


def duration_s(act: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begun_s = time.monotonic()
    act()
    return time.monotonic() - begun_s
