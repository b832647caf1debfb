# SPDX-License-Identifier: Apache-2.0
"""The .deb in a guest without a clone: installed, used for the main job, removed, purged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guests.images import PROJECT
from tests.guests.machine import Machine

TIMEOUT_S = 1200
STATE = "/var/lib/writewise"
FOLDER = "/root/advice"
RESULTS = "/root/results.json"
#: The installed program, run from a folder outside any clone.
WRITEWISE = ("env", "--chdir=/root", "/usr/bin/writewise")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    build: list[str | Path] = [sys.executable, "-m", "tools.packages.build", "--output", folder]
    subprocess.run(build, cwd=PROJECT, check=True)
    return next(folder.glob("*.deb"))


@pytest.fixture(scope="module")
def installed(machine: Machine, package: Path) -> Iterator[Machine]:
    machine.run("mv", "/opt/writewise/.venv", "/opt/writewise/profiler", "/root/")
    machine.copy_file(package, "/root/writewise.deb")
    machine.run("apt-get", "-y", "install", "/root/writewise.deb", timeout_s=TIMEOUT_S)
    yield machine
    machine.run(*WRITEWISE, "lab", "down", check=False, timeout_s=TIMEOUT_S)


def writewise(machine: Machine, *arguments: str) -> str:
    done = machine.run(*WRITEWISE, *arguments, check=False, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def in_force(machine: Machine) -> str:
    return machine.run("sysctl", "vm.dirty_ratio", "vm.dirty_background_ratio").stdout


def test_what_it_needs_is_there(installed: Machine) -> None:
    """Only the demo lacks memory in a guest of 4 GiB."""
    done = installed.run(*WRITEWISE, "doctor", "--json", check=False, timeout_s=TIMEOUT_S)
    needed = json.loads(done.stdout)["requirements"]
    assert {each["name"] for each in needed if not each["ok"]} <= {"memory"}


def test_a_profile_counts(installed: Machine) -> None:
    job = ("dd", "if=/dev/zero", "of=/root/file", "bs=4096", "count=1000")
    document = json.loads(writewise(installed, "profile", "--json", "--", *job))
    [count] = [each for each in document["findings"] if each["label"] == "num_write"]
    assert 1000 <= count["value"] < 1010


def test_the_main_job(installed: Machine) -> None:
    """A slow pull, a sweep, a recommendation, applied with --persist, verified, and rolled back."""
    before = in_force(installed)
    small = ("--volume", "1GiB", "--rate", "2MiB", "--objects", "8", "--object-size", "4MiB")
    writewise(installed, "lab", "up", "--memory", "1PiB", *small)
    lab = json.loads(installed.read(f"{STATE}/lab/lab.json"))
    place = (lab["source"], lab["destination"], "--endpoint-url", lab["endpoint_url"])
    tight = ("vm.dirty_bytes=16777216", "vm.dirty_background_bytes=8388608")
    installed.run("sysctl", "-q", "-w", *tight)
    try:
        sweep = (*place, "--no-sign-request", "--output", RESULTS, "--budget", "9")
        said = writewise(installed, "sweep", *sweep, "--dirty-ratio", "40")
        said += writewise(installed, "advise", RESULTS, "--output-dir", FOLDER)
        assert "No change recommended" not in said, said
        file = f"{FOLDER}/recommendation.json"
        writewise(installed, "apply", file, "--yes", "--persist")
        assert "vm.dirty_bytes = 0\n" in installed.run("sysctl", "vm.dirty_bytes").stdout
        for each in json.loads(installed.read(file))["sysctls"]:
            assert f"{each['name']} = {each['value']}\n" in installed.run("sysctl", "-a").stdout
        writewise(installed, "verify", "--applied")
        writewise(installed, "rollback")
        assert "16777216" in installed.run("sysctl", "vm.dirty_bytes").stdout
        assert "nothing is applied" in writewise(installed, "status")
    finally:
        kept = ("vm.dirty_ratio=20", "vm.dirty_background_ratio=10")
        installed.run("sysctl", "-q", "-w", *kept)
    writewise(installed, "lab", "down")
    assert in_force(installed) == before


def test_it_goes_without_a_trace(installed: Machine) -> None:
    installed.run("apt-get", "-y", "purge", "writewise", timeout_s=TIMEOUT_S)
    for path in ("/usr/bin/writewise", "/usr/lib/writewise", STATE):
        assert installed.run("test", "-e", path, check=False).returncode == 1
