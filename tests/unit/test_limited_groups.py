"""The groups whose memory limit also limits their dirty pages, in made-up hierarchies."""

from __future__ import annotations

import pytest

from sysctl.host.limited_groups import limited_groups
from sysctl.host.memory_group import MemoryGroup
from tests.unit.sweeps import GIB
from tests.unit.test_memory_group import V1, V2, host

CONTROLLERS = {"cgroup.controllers": "cpu io memory pids"}
TASK = {
    "ecs/task/memory.max": str(2 * GIB),
    "ecs/task/memory.high": str(GIB),
    "ecs/task/cgroup.events": "populated 1\nfrozen 0\n",
    "ecs/memory.max": "max",
}


def found(tmp_path, files, table=V2):
    return limited_groups(host(tmp_path, table.format(root="/"), "0::/\n", files))


def test_the_tighter_limit_of_each_group_counts(tmp_path):
    other = {"other/memory.max": str(3 * GIB)}
    groups = found(tmp_path, {**CONTROLLERS, **TASK, **other})
    assert sorted(groups, key=str) == [
        MemoryGroup(2, "/ecs/task", GIB),
        MemoryGroup(2, "/other", 3 * GIB),
    ]


def test_the_namespace_of_a_container_has_its_limit_at_the_root(tmp_path):
    assert found(tmp_path, {**CONTROLLERS, "memory.max": str(GIB)}) == (MemoryGroup(2, "/", GIB),)


@pytest.mark.parametrize(
    "files",
    [
        {**CONTROLLERS},
        {**CONTROLLERS, "task/memory.max": "max", "task/memory.high": "max"},
        {**CONTROLLERS, "task/memory.max": str(9 * GIB)},
        {**CONTROLLERS, **TASK, "ecs/task/cgroup.events": "populated 0\nfrozen 0\n"},
        {**TASK, "cgroup.controllers": "memory"},
        {**TASK, "cgroup.controllers": "io"},
        TASK,
    ],
    ids=["none", "max", "above the host", "empty", "no io", "no memory", "no controllers"],
)
def test_what_limits_no_dirty_pages_does_not_count(tmp_path, files):
    assert found(tmp_path, files) == ()


def test_version_1_has_no_dirty_limit_of_a_group(tmp_path):
    files = {"memory/task/memory.limit_in_bytes": str(GIB)}
    assert found(tmp_path, files, table=V1) == ()
