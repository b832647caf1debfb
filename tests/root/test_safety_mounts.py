# SPDX-License-Identifier: Apache-2.0
"""Mount points of any name, as this kernel shows them, in a mount namespace of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import REPOSITORY

READ = """
import os, sys
from sysctl.host.system import System
targets = [mount.target for mount in System().mounts()]
sys.exit(0 if sys.argv[1] in targets else f"{sys.argv[1]!r} is not in {targets!r}")
"""


@pytest.mark.parametrize(
    "name", ["a b", "a\tb", "a\nb", "a\\b", "a#b", "a\\040b", "é", " - ", "-o", "a,b", "\x1b[31m"]
)
def test_a_mount_point_is_read_as_it_is_named(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    target.mkdir()
    script = 'mount -t tmpfs none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-m", "sh", "-c", script, "-", str(target), sys.executable, READ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert not os.path.ismount(target)
