# SPDX-License-Identifier: Apache-2.0
"""Snippets applied by the real programs, with the values that are already in force."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from sysctl.change.recommendation import SysctlAdvice
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import System
from sysctl.render import ssm, sysctl_d
from tests.unit import snippet_readers as readers
from tests.unit.changes import EVERYTHING, text_of

SYSTEM = System()


@pytest.fixture
def in_force():
    """Recommend what this host has; its values must be the same at the end."""
    before = read_writeback(SYSTEM)
    advice = tuple(SysctlAdvice(name, value, value, "") for name, value in before.items() if value)
    yield replace(EVERYTHING, sysctls=advice, originals={}, disk=None, mount=None, other_form=None)
    assert read_writeback(SYSTEM) == before


def test_the_sysctl_file_is_taken_in_force(in_force, tmp_path):
    path = tmp_path / sysctl_d.FILE_NAME
    path.write_text(text_of(sysctl_d, in_force))
    done = subprocess.run(["sysctl", "-p", path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    read = {name: int(value) for name, value in readers.sysctl_conf(done.stdout)}
    assert read == in_force.sysctl_values


def test_the_script_of_systems_manager_installs_the_file_and_takes_it_in_force(in_force):
    """In a separate mount namespace, where /etc/sysctl.d is an empty file system."""
    [step] = json.loads(text_of(ssm, in_force))["mainSteps"]
    script = [
        "mount -t tmpfs none /etc/sysctl.d",
        *step["inputs"]["runCommand"],
        "stat -c '%a %U %n' /etc/sysctl.d/* /etc/sysctl.d/.[!.]* 2>/dev/null || :",
    ]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(script)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    *settings, status = done.stdout.splitlines()
    read = {name: int(value) for name, value in readers.sysctl_conf("\n".join(settings))}
    assert read == in_force.sysctl_values
    assert status == f"644 root {sysctl_d.PATH}"
    assert not SYSTEM.exists(sysctl_d.PATH)
