# SPDX-License-Identifier: Apache-2.0
"""Reboots and power cuts: persisted settings stay, changes by a trial do not."""

from __future__ import annotations

import json
import time

import pytest

from tests.guests.machine import Machine

WANTED = {"vm.dirty_ratio": 61, "vm.dirty_background_ratio": 7}
FILE = "/root/recommendation.json"
STATE = "/var/lib/writewise"
RESULTS = "/root/results.json"
TIMEOUT_S = 900
#: Run in the guest: writes a recommendation that `apply` trusts.
MAKE_FILE = f"""
from pathlib import Path
from tests.guests.inside.volumes import recommended_sysctls
recommended_sysctls({WANTED}, Path("/root"))
"""


@pytest.fixture(autouse=True)
def as_before(machine: Machine):
    """Each test begins and ends with the kernel's defaults and no journal."""
    originals = in_force(machine)
    machine.run("python", "-c", MAKE_FILE)
    yield
    machine.run("writewise", "rollback", timeout_s=TIMEOUT_S)
    machine.run("writewise", "lab", "down", timeout_s=TIMEOUT_S, check=False)
    assert in_force(machine) == originals


def in_force(machine: Machine) -> dict[str, int]:
    lines = machine.run("sysctl", *WANTED).stdout.splitlines()
    return {name: int(value) for name, value in (line.split(" = ") for line in lines)}


def apply(machine: Machine, *options: str) -> None:
    machine.run("writewise", "apply", FILE, "--yes", *options, timeout_s=TIMEOUT_S)
    assert in_force(machine) == WANTED


def start_sweep(machine: Machine) -> None:
    """Start a sweep on a lab, and wait until one of its trials has changed the host."""
    small = ("--volume", "1GiB", "--rate", "50MiB", "--objects", "8", "--object-size", "4MiB")
    machine.run("writewise", "lab", "up", "--memory", "1PiB", *small, timeout_s=TIMEOUT_S)
    lab = json.loads(machine.read(f"{STATE}/lab/lab.json"))
    machine.run(
        *("systemd-run", "--unit=sweep", "--working-directory=/opt/writewise", "--collect"),
        *("/opt/writewise/.venv/bin/writewise", "sweep", lab["source"], lab["destination"]),
        *("--endpoint-url", lab["endpoint_url"], "--no-sign-request", "--output", RESULTS),
        *("--dirty-ratio", "40,60", "--install-recovery"),
    )
    originals, deadline_s = in_force(machine), time.monotonic() + TIMEOUT_S
    while in_force(machine) == originals:
        assert time.monotonic() < deadline_s, machine.run("journalctl", "-u", "sweep").stdout
        time.sleep(0.5)


def test_what_is_persisted_survives_a_reboot(machine: Machine) -> None:
    originals = in_force(machine)
    apply(machine, "--persist")
    machine.reboot()
    assert in_force(machine) == WANTED
    assert machine.run("writewise", "verify", "--applied", timeout_s=TIMEOUT_S).returncode == 0
    machine.run("writewise", "rollback", timeout_s=TIMEOUT_S)
    assert in_force(machine) == originals
    machine.reboot()
    assert in_force(machine) == originals


@pytest.mark.parametrize("options", [(), ("--for", "1h")], ids=["to stay", "for an hour"])
def test_what_is_applied_without_persist_ends_with_the_boot(
    machine: Machine, options: tuple[str, ...]
) -> None:
    originals = in_force(machine)
    apply(machine, *options)
    machine.reboot()
    assert in_force(machine) == originals
    verified = machine.run("writewise", "verify", "--applied", check=False, timeout_s=TIMEOUT_S)
    assert verified.returncode and "nothing is applied on this host" in verified.stderr


def test_a_power_cut_in_the_middle_of_a_sweep_is_restored_at_boot(machine: Machine) -> None:
    originals = in_force(machine)
    start_sweep(machine)
    machine.power_cut()
    assert in_force(machine) == originals
    assert machine.run("systemctl", "is-failed", "writewise-recover", check=False).returncode
    status = json.loads(machine.run("writewise", "status", "--json", timeout_s=TIMEOUT_S).stdout)
    assert status["applied"] == [] and status["interrupted"] == []
    assert not machine.run("losetup", "--list", "--noheadings").stdout
    assert ".writewise-" not in machine.run("find", "/root", "-name", ".writewise-*").stdout


def test_a_power_cut_in_the_middle_of_apply_leaves_all_or_nothing(machine: Machine) -> None:
    originals = in_force(machine)
    background = (
        f"setsid writewise apply {FILE} --yes --persist </dev/null >/dev/null 2>&1 & pid=$!"
    )
    begun = f"while [ ! -s {STATE}/applied.journal ]; do :; done; kill -0 $pid && echo running"
    said, _ = machine.start("bash", "-c", f"{background}; {begun}").communicate(timeout=TIMEOUT_S)
    machine.power_cut()
    assert said == "running\n"  # the journal's beginning; the power cut was a moment later
    machine.run("writewise", "rollback", "--interrupted", timeout_s=TIMEOUT_S)
    machine.reboot()
    files = machine.run("ls", "/etc/sysctl.d").stdout
    assert (in_force(machine), "writewise" in files) in ((originals, False), (WANTED, True))
