# SPDX-License-Identifier: Apache-2.0
"""Power cuts and reboots while thresholds are raised: after the boot they are the host's own.

A burst onto a slow disk lasts until then. The host's own thresholds are set at each boot by a file
of the administrator, and are not the kernel's defaults.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator

import pytest

from sysctl.apply.governor_unit import UNIT
from tests.guests.images import INSTALLED
from tests.guests.inside.governed import BOUND_MIB, REST, SLOW
from tests.guests.machine import Machine

OWN = {"vm.dirty_bytes": 0, "vm.dirty_background_bytes": 0, **REST}
HELD = {**OWN, "vm.dirty_ratio": 61, "vm.dirty_background_ratio": 7}
HOLD = ("--dirty-ratio", 61, "--dirty-background-ratio", 7)
TARGET = "/srv/volume"
STATE = "/var/lib/writewise"
MIB = 2**20
#: What the disk takes. A burst lasts 80 s at least, however slow the emulated CPUs are.
SLOW_DISK_BYTES_PER_S = 6 * MIB
#: At the end at least so much must be missing on the disk.
BURST_MIB, LEAST_AT_RISK_MIB = 500, 100
TIMEOUT_S = 900
WRITEWISE = f"{INSTALLED}/.venv/bin/writewise"
#: Run in the guest: a volume and thresholds that each boot brings back.
PREPARE = f"""
from pathlib import Path
from tests.guests.inside.volumes import run
run("mkfs.xfs", "-q", "-f", "{SLOW}")
Path("{TARGET}").mkdir()
with Path("/etc/fstab").open("a") as file:
    file.write("{SLOW} {TARGET} xfs defaults,nofail 0 0\\n")
run("systemctl", "daemon-reload")
run("mount", "{TARGET}")
Path("/etc/sysctl.d/10-own.conf").write_text("vm.dirty_ratio=4\\nvm.dirty_background_ratio=2\\n")
run("sysctl", "--quiet", "--system")
"""
#: Run in the guest: the words of the command that writes a burst.
WORDS = f"""
import shlex
from pathlib import Path
from tests.guests.inside.governed import writer_words
print(shlex.join(writer_words(Path("{TARGET}/burst"), {BURST_MIB})))
"""
#: Run in the guest: the unit. A guest next to others may be slower than its limits of time, which
#: have tests of their own.
INSTALL = f"""
from pathlib import Path
from tests.guests.inside.services import install
from tests.guests.inside.volumes import run
limits = Path("/etc/systemd/system/{UNIT}.d/limits.conf")
limits.parent.mkdir(exist_ok=True)
limits.write_text("[Service]\\nWatchdogSec=60\\nTimeoutStartSec=600\\nTimeoutStopSec=600\\n")
install("{UNIT}", "govern", "{TARGET}", "--max-at-risk", "{BOUND_MIB}MiB")
run("sync")  # a cut of the power right after an installation would lose the unit
run("systemctl", "start", "{UNIT}")
"""
REMOVE = f"from tests.guests.inside.services import remove; remove('{UNIT}')"

Ending = Callable[[Machine], None]
both_endings = pytest.mark.parametrize(
    "end", [Machine.power_cut, Machine.reboot], ids=["power cut", "reboot"]
)


@pytest.fixture(scope="module")
def volume(machine: Machine) -> Machine:
    """A guest with the volume and thresholds of its own."""
    machine.run("python", "-c", PREPARE, timeout_s=TIMEOUT_S)
    return machine


@pytest.fixture(autouse=True)
def as_before(volume: Machine) -> Iterator[None]:
    """Each test begins and ends with the host's own thresholds, without the last burst."""
    assert in_force(volume) == OWN
    yield
    volume.run("rm", "-f", f"{TARGET}/burst")
    assert in_force(volume) == OWN


@pytest.fixture
def governed(volume: Machine) -> Iterator[Machine]:
    """A guest with the governor as a service that starts at boot."""
    volume.run("python", "-c", INSTALL, timeout_s=TIMEOUT_S)
    yield volume
    volume.run("python", "-c", REMOVE, timeout_s=TIMEOUT_S)


def in_force(machine: Machine) -> dict[str, int]:
    lines = machine.run("sysctl", *OWN).stdout.splitlines()
    return {name: int(value) for name, value in (line.split(" = ") for line in lines)}


def at_risk_mib(machine: Machine) -> float:
    """Return what is dirty or under write-back."""
    found = re.findall(r"^(?:Dirty|Writeback): +(\d+) kB", machine.read("/proc/meminfo"), re.M)
    return sum(map(int, found)) / 1024


def wait_until(machine: Machine, is_so: Callable[[], bool], seconds: float = 300) -> None:
    deadline_s = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline_s, machine.run("journalctl", "-b", "-n", 50).stdout
        time.sleep(0.2)


def start(machine: Machine, *before: object) -> None:
    """Start a burst as a unit, below the words `before`."""
    words = shlex.split(machine.run("python", "-c", WORDS, timeout_s=TIMEOUT_S).stdout)
    unit = ("systemd-run", "--quiet", "--unit=burst", "--collect")
    machine.run(*unit, f"--working-directory={INSTALLED}", "--", *before, *words)


def end_while_raised(machine: Machine, end: Ending) -> None:
    """Reboot or cut the power while the thresholds are raised and the burst is in memory."""
    wait_until(machine, lambda: at_risk_mib(machine) > 2 * LEAST_AT_RISK_MIB)
    assert in_force(machine) != OWN
    missing_mib = at_risk_mib(machine)
    assert missing_mib > LEAST_AT_RISK_MIB
    end(machine)
    print(f"{missing_mib:.0f} MiB were not on the disk at the end")


def check_nothing_is_left(machine: Machine) -> None:
    """Check that the host's own thresholds are in force, and that no program would change them."""
    assert in_force(machine) == OWN
    said = machine.run("writewise", "status", "--json", check=False, timeout_s=TIMEOUT_S)
    assert said.returncode == 0, said.stderr
    status = json.loads(said.stdout)
    assert (status["applied"], status["interrupted"], status["runs"]) == ([], [], [])


def check_equal_values_stay(machine: Machine) -> None:
    """Check that what an administrator sets now stays, even if it is what the run had set."""
    machine.run("sysctl", *(f"{name}={HELD[name]}" for name in REST))
    try:
        machine.run("writewise", "rollback", "--interrupted", timeout_s=TIMEOUT_S)
        assert in_force(machine) == HELD
    finally:
        machine.run("sysctl", *(f"{name}={value}" for name, value in REST.items()))


def check_run_starts(machine: Machine) -> None:
    """Check that the next run holds its settings, restores them and leaves no file."""
    command = ("sysctl", "-n", "vm.dirty_ratio")
    done = machine.run("writewise", "run", *HOLD, "--", *command, check=False, timeout_s=TIMEOUT_S)
    assert (done.returncode, done.stdout.split()) == (0, ["61"]), done.stderr
    assert in_force(machine) == OWN
    left = machine.run("ls", STATE).stdout.split()
    assert not [name for name in left if name.startswith("run") and name != "run.lock"], left


@both_endings
def test_the_governor_has_raised_the_thresholds(governed: Machine, end: Ending) -> None:
    start(governed)
    end_while_raised(governed, end)
    check_nothing_is_left(governed)
    wait_until(governed, lambda: is_active(governed))
    start(governed)  # it governs as before
    wait_until(governed, lambda: in_force(governed) != OWN)
    wait_until(governed, lambda: in_force(governed) == OWN)


def is_active(machine: Machine) -> bool:
    return machine.run("systemctl", "is-active", UNIT, check=False).stdout == "active\n"


@both_endings
def test_a_run_holds_settings(volume: Machine, end: Ending) -> None:
    start(volume, WRITEWISE, "run", *HOLD, "--")
    wait_until(volume, lambda: in_force(volume) == HELD)
    end_while_raised(volume, end)
    check_nothing_is_left(volume)
    check_equal_values_stay(volume)
    check_run_starts(volume)


@both_endings
def test_a_run_has_raised_the_thresholds(volume: Machine, end: Ending) -> None:
    bound = ("--on", TARGET, "--max-at-risk", f"{BOUND_MIB}MiB")
    start(volume, WRITEWISE, "run", "--auto", *bound, "--")
    end_while_raised(volume, end)
    check_nothing_is_left(volume)
    check_run_starts(volume)
