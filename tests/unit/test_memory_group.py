"""The limit of this process's control group, read from made-up hierarchies, and what it means."""

from __future__ import annotations

import pytest

from sysctl.advise import advise
from sysctl.group_advice import group_lines
from sysctl.host.memory_group import MemoryGroup, memory_group
from sysctl.host.system import System
from sysctl.setting import Setting
from sysctl.writeback import Thresholds, group_thresholds
from tests.unit.studies import Study
from tests.unit.sweeps import GIB, sweep

V2 = "30 1 0:26 {root} /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 1 0:27 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


def host(tmp_path, table, groups, files):
    texts = {
        "proc/meminfo": "MemTotal:        8388608 kB\n",
        "proc/self/mountinfo": table,
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return System(tmp_path)


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"task/memory.max": "max"}, None),
        ({"task/memory.max": "2147483648"}, 2 * GIB),
        ({"task/memory.max": "2147483648", "task/memory.high": "1073741824"}, GIB),
        ({"task/memory.max": "max", "memory.max": "3221225472"}, 3 * GIB),
        ({"task/memory.max": str(9 * GIB)}, None),
    ],
)
def test_version_2_the_tightest_limit_up_to_the_root_counts(tmp_path, files, limit):
    group = memory_group(host(tmp_path, V2.format(root="/"), "0::/task\n", files))
    assert group == (None if limit is None else MemoryGroup(2, "/task", limit))


def test_version_1_has_its_own_hierarchy(tmp_path):
    groups = "8:pids:/\n4:memory:/ecs/task\n0::/\n"
    files = {"memory/ecs/task/memory.limit_in_bytes": str(2 * GIB)}
    files["memory/memory.limit_in_bytes"] = str(2**63 - 4096)
    system = host(tmp_path, V2.format(root="/") + V1.format(root="/"), groups, files)
    assert memory_group(system) == MemoryGroup(1, "/ecs/task", 2 * GIB)


def test_a_container_sees_its_group_as_the_root_of_the_mount(tmp_path):
    files = {"memory/memory.limit_in_bytes": str(GIB)}
    system = host(tmp_path, V1.format(root="/docker/a"), "4:memory:/docker/a\n", files)
    assert memory_group(system) == MemoryGroup(1, "/docker/a", GIB)


def test_a_group_outside_of_the_namespace_is_not_looked_for(tmp_path):
    files = {"memory.max": "1073741824"}
    assert memory_group(host(tmp_path, V2.format(root="/"), "0::/../other\n", files)) is None


def test_a_kernel_without_control_groups_has_none(tmp_path):
    assert memory_group(System(tmp_path)) is None


def test_version_2_holds_its_writers_to_the_same_share_of_its_own_memory():
    first, where, follows = group_lines(advise(sweep()), MemoryGroup(2, "/task\x1b", 2 * GIB))
    assert "control group /task\\x1b with a memory limit of 2.00 GiB" in first
    assert "the group's own limit governs" in first
    assert "wait from 870 MiB of dirty pages on at the latest (42% of the group's" in where
    assert (
        "to hold the 1.70 GiB that were dirty at most, a group needs a limit of 4.00 GiB" in follows
    )


def test_bytes_beyond_the_hosts_memory_are_all_of_the_groups_and_no_more():
    host_thresholds = Thresholds(GIB, 9 * GIB)
    assert group_thresholds(host_thresholds, 4 * GIB, 2 * GIB) == Thresholds(GIB // 2, 2 * GIB)
    both = Thresholds(8 * GIB, 9 * GIB)
    assert group_thresholds(both, 4 * GIB, 2 * GIB) == Thresholds(GIB, 2 * GIB)


def test_and_the_figures_are_said_so():
    setting = Setting((("vm.dirty_bytes", 9 * GIB), ("vm.dirty_background_bytes", GIB)))
    recommendation = advise(Study().tried(setting, 10.0).results)
    _, where, follows = group_lines(recommendation, MemoryGroup(2, "/task", 2 * GIB))
    assert "wait from 1.25 GiB of dirty pages on at the latest (62% of the group's" in where
    assert "a group needs a limit of 1.60 GiB or more" in follows


def test_version_1_waits_in_reclaim_whatever_the_settings_are():
    _, where, follows = group_lines(advise(sweep()), MemoryGroup(1, "/task", 2 * GIB))
    assert "no dirty limit of its own" in where
    assert "2.00 GiB are full" in where
    assert "to hold the 1.70 GiB" in follows


def test_a_group_with_more_than_the_host_can_have_dirty_changes_nothing():
    assert group_lines(advise(sweep()), MemoryGroup(2, "/task", 4 * GIB)) == []
