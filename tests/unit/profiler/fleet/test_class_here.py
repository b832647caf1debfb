# SPDX-License-Identifier: Apache-2.0
"""The class of this node, in made-up hierarchies of control groups."""

import pytest

from profiler.fleet.class_here import class_here
from sysctl.evidence.circumstances import NodeClass
from tests.unit.sweeps import GIB
from tests.unit.sysctl.advice.test_memory_group import V1, V2, host

LIMIT = str(GIB + 1)


@pytest.mark.parametrize(
    ("table", "groups", "files", "version", "band"),
    [
        (V2, "0::/task\n", {"task/memory.max": LIMIT}, 2, "2GiB"),
        (V2, "0::/task\n", {"task/memory.max": "max"}, 2, None),
        (V1, "4:memory:/task\n", {"memory/task/memory.limit_in_bytes": LIMIT}, 1, "2GiB"),
    ],
)
def test_the_group_of_this_process_is_of_its_class(tmp_path, table, groups, files, version, band):
    system = host(tmp_path, table.format(root="/"), groups, files)
    key = class_here(NodeClass(fstype="xfs"), system)
    assert (key.file_system, key.cgroup_version, key.memory_limit_band) == ("xfs", version, band)
