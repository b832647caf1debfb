# SPDX-License-Identifier: Apache-2.0
"""The limit of this process's control group, read from simulated hierarchies, and its effect."""

from __future__ import annotations

import json

import pytest

from profiler.report.groups import group_lines
from sysctl.advice.advise import advise
from sysctl.advice.group_advice import group_advice
from sysctl.change.recommendation_file import from_json
from sysctl.host.memory_group import MemoryGroup, memory_group
from sysctl.host.system import System
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import GroupUse, Thresholds, group_available_bytes, group_thresholds
from sysctl.render import sysctl_d
from tests.unit.changes import change_in
from tests.unit.studies import Study
from tests.unit.sweeps import GIB, circumstances, sweep

MIB = 2**20
#: Recommends 80/5.
ADVICE = advise(sweep(backgrounds=(5,)))
V2 = "30 1 0:26 {root} /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 1 0:27 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


def lines_of(group):
    return group_lines(group_advice(ADVICE, group))


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
    group = MemoryGroup(1, "/ecs/task", 2 * GIB, has_dirty_limit=False)
    assert memory_group(system) == group


def test_a_container_sees_its_group_as_the_root_of_the_mount(tmp_path):
    files = {"memory/memory.limit_in_bytes": str(GIB)}
    system = host(tmp_path, V1.format(root="/docker/a"), "4:memory:/docker/a\n", files)
    group = MemoryGroup(1, "/docker/a", GIB, has_dirty_limit=False)
    assert memory_group(system) == group


def test_a_group_outside_the_namespace_is_not_looked_up(tmp_path):
    files = {"memory.max": "1073741824"}
    assert memory_group(host(tmp_path, V2.format(root="/"), "0::/../other\n", files)) is None


def test_a_kernel_without_control_groups_has_none(tmp_path):
    assert memory_group(System(tmp_path)) is None


USE = (
    "anon 322122547\nfile 104857600\nfile_dirty 8192\nfile_writeback 4096\n"
    "inactive_file 73400320\nactive_file 31457280\n"
)


def test_the_memory_of_a_group_has_the_least_room_of_its_ancestors(tmp_path):
    files = {
        "pods/a/memory.stat": USE,
        "pods/a/memory.max": str(2 * GIB),
        "pods/a/memory.current": str(GIB),
        "pods/memory.max": "max",
        "pods/memory.high": str(4 * GIB),
        "pods/memory.current": str(4 * GIB - 4096),
    }
    group = memory_group(host(tmp_path, V2.format(root="/"), "0::/pods/a\n", files))
    assert group == MemoryGroup(2, "/pods/a", 2 * GIB, GroupUse(100 * MIB, 12288, 4096))


def test_a_group_beyond_its_limit_has_no_room(tmp_path):
    files = {"a/memory.stat": USE, "a/memory.high": "4096", "a/memory.current": "8192"}
    group = memory_group(host(tmp_path, V2.format(root="/"), "0::/a\n", files))
    assert group.use.headroom_bytes == 0


@pytest.mark.parametrize("controllers", ["blkio", "cpu,blkio"])
def test_with_the_io_controller_on_version_1_a_group_has_no_dirty_limit(tmp_path, controllers):
    files = {"task/memory.max": str(GIB)}
    groups = f"5:{controllers}:/\n0::/task\n"
    system = host(tmp_path, V2.format(root="/"), groups, files)
    assert not memory_group(system).has_dirty_limit
    _, what = lines_of(memory_group(system))
    assert "no dirty limit of its own" in what


RATIOS = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}


def test_the_worked_example_of_a_task_of_2_gib():
    """0.3 GiB of it are anonymous; 20/10. The whole limit would give 307 MiB, 18 % too much."""
    anonymous = 3 * GIB // 10
    for file_bytes in (0, GIB, 2 * GIB - anonymous):
        use = GroupUse(file_bytes, 0, 2 * GIB - anonymous - file_bytes)
        available = group_available_bytes(use, 256 * GIB, 0)
        assert available == 2 * GIB - anonymous
        freerun = group_thresholds(RATIOS, 256 * GIB, available).freerun_bytes
        assert round(freerun / MIB) == 261
    assert round(group_thresholds(RATIOS, 256 * GIB, 2 * GIB).freerun_bytes / MIB) == 307


def test_a_group_may_take_at_most_the_clean_memory_of_the_host():
    use = GroupUse(file_bytes=GIB, dirty_bytes=GIB // 4, headroom_bytes=8 * GIB)
    # 4 GiB of the host, 1 of them dirty: 3 are clean, 0.75 of these the group's own
    assert group_available_bytes(use, 4 * GIB, GIB) == GIB + 9 * GIB // 4
    assert group_available_bytes(use, GIB, 2 * GIB) == GIB
    assert group_available_bytes(GroupUse(GIB, 2 * GIB, 0), 4 * GIB, GIB) == GIB


def test_bytes_are_a_share_of_the_hosts_memory_and_starve_a_container_on_a_large_host():
    values = {"vm.dirty_bytes": 2 * GIB, "vm.dirty_background_bytes": GIB}
    # ceil(2**31 / 67,108,864 pages) = 32 of 4096, and half of it
    assert group_thresholds(values, 256 * GIB, 2 * GIB) == Thresholds(8 * MIB, 16 * MIB)
    # rounded up to whole parts of 4096, and at most all 4096
    few = {"vm.dirty_bytes": 1, "vm.dirty_background_bytes": 1}
    least = 2 * GIB // 4096
    assert group_thresholds(few, 256 * GIB, 2 * GIB) == Thresholds(least // 2, least)
    much = {"vm.dirty_bytes": 9 * GIB, "vm.dirty_background_bytes": GIB}
    assert group_thresholds(much, 4 * GIB, 2 * GIB) == Thresholds(GIB // 2, 2 * GIB)
    both = {"vm.dirty_bytes": 9 * GIB, "vm.dirty_background_bytes": 8 * GIB}
    assert group_thresholds(both, 4 * GIB, 2 * GIB) == Thresholds(GIB, 2 * GIB)


def test_version_2_limits_writers_to_the_same_share_of_the_groups_file_pages():
    anonymous = 3 * GIB // 10
    use = GroupUse(0, 0, 2 * GIB - anonymous)
    group = MemoryGroup(2, "/task\x1b", 2 * GIB, use)
    first, where, follows = lines_of(group)
    assert "control group /task\\x1b with a memory limit of 2.00 GiB" in first
    assert "the group's own limit applies" in first
    assert "throttled above 739 MiB of dirty pages or less (42% of the 1.70 GiB that" in where
    assert (
        "to hold the 1.70 GiB that were dirty at most, a group needs a limit of 4.30 GiB" in follows
    )


def test_a_group_of_unknown_usage_is_assumed_to_have_its_whole_limit():
    _, where, _ = lines_of(MemoryGroup(2, "/task", 2 * GIB))
    assert "throttled above 870 MiB of dirty pages or less (42% of the 2.00 GiB that" in where


def in_bytes(dirty, background):
    setting = Setting((("vm.dirty_bytes", dirty), ("vm.dirty_background_bytes", background)))
    return Study().tried(setting, 10.0).results


def limited(results, count=3, smallest_bytes=2 * GIB):
    results.circumstances = circumstances(
        workers=2, limited_groups={"count": count, "smallest_bytes": smallest_bytes}
    )
    return results


def test_bytes_go_to_the_second_file_on_a_host_with_limited_groups():
    plain = change_in(advise(in_bytes(3 * GIB, GIB)))
    assert plain.sysctl_values == {"vm.dirty_bytes": 3 * GIB, "vm.dirty_background_bytes": GIB}
    change = change_in(advise(limited(in_bytes(3 * GIB, GIB))))
    assert change.sysctl_values == {"vm.dirty_ratio": 75, "vm.dirty_background_ratio": 25}
    assert change.other_form.kind == "bytes"
    assert change.other_form.values == plain.sysctl_values
    assert "this host has 3 control groups with a memory limit, the smallest of 2.00 GiB" in (
        change.sysctls[0].reason
    )
    ratio_file, bytes_file = sysctl_d.render(change)
    assert ratio_file.file_name == "90-writewise.conf"
    assert "WARNING" not in ratio_file.text
    assert "WARNING: measured in this form, but this host has 3 control groups" in bytes_file.text
    assert from_json(json.loads(json.dumps(change.to_json())), "x") == change


def test_bytes_stay_with_the_reason_if_no_whole_percentage_is_close():
    change = change_in(advise(limited(in_bytes(GIB // 50, GIB // 100))))
    assert set(change.sysctl_values) == {"vm.dirty_bytes", "vm.dirty_background_bytes"}
    assert all("this host has 3 control groups" in advice.reason for advice in change.sysctls)


def test_ratios_stay_the_first_file_and_bytes_carry_the_warning():
    setting = Setting((("vm.dirty_ratio", 80), ("vm.dirty_background_ratio", 5)))
    change = change_in(advise(limited(Study().tried(setting, 4.0).results)))
    assert change.sysctl_values["vm.dirty_ratio"] == 80
    texts = {snippet.file_name: snippet.text for snippet in sysctl_d.render(change)}
    assert "containers have memory limits" in texts["90-writewise-bytes.conf"]


def test_version_1_waits_in_reclaim_under_any_settings():
    _, where, follows = lines_of(MemoryGroup(1, "/task", 2 * GIB, None, False))
    assert "no dirty limit of its own" in where
    assert "2.00 GiB are full" in where
    assert "to hold the 1.70 GiB" in follows


def test_a_group_limit_above_the_hosts_dirtyable_memory_changes_nothing():
    assert lines_of(MemoryGroup(2, "/task", 4 * GIB)) == []
