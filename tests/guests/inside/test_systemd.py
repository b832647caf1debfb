# SPDX-License-Identifier: Apache-2.0
"""A host that systemd runs: trial periods, sysctl.d, reloads in the middle of a sweep."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sysctl.evidence.results import load
from sysctl.host.applied_host import REVERT_UNIT, AppliedHost
from sysctl.host.host import STATE_DIRECTORY
from sysctl.host.sysctls import read_writeback
from tests.guests.inside.volumes import TIMEOUT_S, recommended_sysctls, run
from tests.root.labs import (
    SMALL,
    SYSTEM,
    assert_as,
    command,
    endpoint_arguments,
    guarded,
    host_state,
    lab_elsewhere,
    writewise,
)

WANTED = {"vm.dirty_ratio": 61, "vm.dirty_background_ratio": 7}
TRIAL_PERIOD_S = 60


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Write a recommendation; the host has its original values again at the end."""
    try:
        yield recommended_sysctls(WANTED, tmp_path)
    finally:
        AppliedHost(Path(STATE_DIRECTORY)).restore()


def in_force() -> dict[str, int | None]:
    present = read_writeback(SYSTEM)
    return {name: present.get(name) for name in WANTED}


@pytest.mark.parametrize("manager", ["daemon-reload", "daemon-reexec"])
def test_a_trial_period_ends_by_itself(file: Path, manager: str) -> None:
    """The timer belongs to systemd, so it outlives this program."""
    before = in_force()
    done = writewise("apply", file, "--yes", "--for", f"{TRIAL_PERIOD_S}s", timeout=TIMEOUT_S)
    applied_s = time.monotonic()
    assert (done.returncode, in_force()) == (0, WANTED), done.stderr
    assert "trial" in writewise("status", timeout=TIMEOUT_S).stdout
    run("systemctl", manager)
    while in_force() == WANTED and time.monotonic() < applied_s + 3 * TRIAL_PERIOD_S:
        time.sleep(1)
    assert in_force() == before
    assert time.monotonic() > applied_s + TRIAL_PERIOD_S / 2
    assert run("systemctl", "is-active", f"{REVERT_UNIT}.timer", check=False).strip() == "inactive"


@pytest.mark.parametrize("manager", ["daemon-reload", "daemon-reexec"])
def test_a_sweep_goes_on_while_systemd_is_reloaded(tmp_path: Path, manager: str) -> None:
    """systemd is reloaded repeatedly, as package upgrades do: no trial loses its lab's cap."""
    output = tmp_path / "results.json"
    with guarded(tmp_path), lab_elsewhere(tmp_path / "lab", SMALL) as present:
        before = host_state()
        started = subprocess.Popen(
            command(
                *("sweep", present.source, present.destination, *endpoint_arguments(present)),
                *("--output", output, "--dirty-ratio", "40", "--budget", 8),
            ),
            stderr=subprocess.PIPE,
            text=True,
        )
        while started.poll() is None:
            run("systemctl", manager)
            time.sleep(2)
        assert started.returncode == 0, started.stderr and started.stderr.read()
        assert_as(before)
    assert [trial.problem for trial in load(output).trials if trial.problem] == []


def test_systemd_sysctl_loads_what_was_persisted(file: Path) -> None:
    """The real program that reads the files at boot, not `sysctl -p`."""
    done = writewise("apply", file, "--yes", "--persist", timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    for name in ("vm.dirty_ratio=33", "vm.dirty_background_ratio=3"):
        run("sysctl", "-q", "-w", name)
    run("systemctl", "restart", "systemd-sysctl")
    assert in_force() == WANTED
    listed = run("systemd-analyze", "cat-config", "sysctl.d")
    assert "90-writewise.conf" in listed or "99-writewise.conf" in listed
    assert writewise("rollback", timeout=TIMEOUT_S).returncode == 0
    run("systemctl", "restart", "systemd-sysctl")
    assert in_force() != WANTED
