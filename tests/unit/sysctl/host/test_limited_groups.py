# SPDX-License-Identifier: Apache-2.0
"""The groups whose memory limit also limits their dirty pages, in made-up hierarchies."""

from __future__ import annotations

import pytest

from sysctl.host.limited_groups import limited_groups
from sysctl.host.memory_group import MemoryGroup
from tests.unit.sweeps import GIB
from tests.unit.sysctl.advice.test_memory_group import V1, V2, host

TASK = {
    "ecs/task/memory.max": str(2 * GIB),
    "ecs/task/memory.high": str(GIB),
    "ecs/task/cgroup.events": "populated 1\nfrozen 0\n",
    "ecs/memory.max": "max",
}


def found(tmp_path, files, table=V2, groups="0::/\n"):
    return limited_groups(host(tmp_path, table.format(root="/"), groups, files))


def test_the_tighter_limit_of_each_group_counts(tmp_path):
    other = {"other/memory.max": str(3 * GIB)}
    groups = found(tmp_path, {**TASK, **other})
    assert sorted(groups, key=str) == [
        MemoryGroup(2, "/ecs/task", GIB),
        MemoryGroup(2, "/other", 3 * GIB),
    ]


def test_a_group_without_processes_counts(tmp_path):
    """A drained node's pods come back."""
    drained = {"kubepods.slice/memory.max": str(GIB), "kubepods.slice/cgroup.events": "populated 0"}
    assert found(tmp_path, drained) == (MemoryGroup(2, "/kubepods.slice", GIB),)


def test_the_namespace_of_a_container_has_its_limit_at_the_root(tmp_path):
    assert found(tmp_path, {"memory.max": str(GIB)}) == (MemoryGroup(2, "/", GIB),)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"task/memory.max": "max", "task/memory.high": "max"},
        {"task/memory.max": str(9 * GIB)},
    ],
    ids=["none", "max", "above the host"],
)
def test_a_group_that_limits_no_dirty_pages_does_not_count(tmp_path, files):
    assert found(tmp_path, files) == ()


@pytest.mark.parametrize("controller", ["memory", "blkio"])
def test_a_version_1_controller_removes_the_dirty_limits(tmp_path, controller):
    assert found(tmp_path, TASK, groups=f"5:{controller}:/\n0::/\n") == ()


def test_version_1_has_no_dirty_limit_of_a_group(tmp_path):
    files = {"memory/task/memory.limit_in_bytes": str(GIB)}
    assert found(tmp_path, files, table=V1) == ()
