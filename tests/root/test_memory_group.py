# SPDX-License-Identifier: Apache-2.0
"""The memory limit of a real control group, read by a process in the group."""

from __future__ import annotations

import subprocess
import sys

from tests.root import groups

LIMIT_BYTES = 64 * 2**20
ASK = (
    "from sysctl.host.memory_group import memory_group; from sysctl.host.system import System; "
    "group = memory_group(System()); print(group.version, group.path, group.limit_bytes)"
)


def test_a_process_in_a_limited_group_reads_its_limit():
    with groups.limited(LIMIT_BYTES) as (group, version):
        told = subprocess.run(
            [*groups.inside(group), sys.executable, "-c", ASK],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    assert told[0] == str(version)
    assert told[1].endswith(f"/{group.name}")
    assert told[2] == str(LIMIT_BYTES)
    assert not group.exists()
