# SPDX-License-Identifier: Apache-2.0
"""Whose writes count: processes by name and by control group, from files as the kernel has them."""

from __future__ import annotations

import os
import time

import pytest

from contracts.shared.errors import RequirementError, UsageError
from profiler.govern.admission import Admission, admission
from profiler.govern.control_groups import ControlGroups
from profiler.govern.processes import Growth, Processes
from profiler.govern.writers import Writers
from sysctl.govern.groups import LimitedMemory
from sysctl.govern.samples import VolumeState
from sysctl.knobs.writeback import GroupUse
from tests.unit.applied_hosts import FilesHost

MIB, SECOND_NS = 2**20, 10**9
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
V2 = "40 22 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = (
    "40 22 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    "41 22 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "42 22 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
)
PATH = "/system.slice/pull.service"


def now_ticks() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * TICKS_PER_S // SECOND_NS


class Proc:
    """A /proc with processes."""

    def __init__(self, root):
        self.root = root
        root.mkdir()

    def put(self, pid, mib, comm="s5cmd", parent=1, state="S", age_s=100.0):
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        started = max(0, now_ticks() - round(age_s * TICKS_PER_S))
        fields = [state, str(parent), *["0"] * 17, str(started), "0"]
        (folder / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)}\n")
        counts = {"rchar": 5, "write_bytes": mib * MIB, "cancelled_write_bytes": 9}
        (folder / "io").write_text("".join(f"{name}: {n}\n" for name, n in counts.items()))

    def end(self, pid):
        for file in (self.root / str(pid)).iterdir():
            file.unlink()
        (self.root / str(pid)).rmdir()


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path / "proc")


def grown(growth, *pids):
    found = growth.since_last_look(dict.fromkeys(pids, "pull"))
    return found.get("pull", 0) / MIB


def test_an_old_process_counts_from_the_first_look_and_a_young_one_from_its_start(proc) -> None:
    growth = Growth(Processes(proc.root))
    proc.put(10, 500)
    proc.put(11, 7, age_s=0.1)
    assert grown(growth, 10, 11) == 7
    proc.put(10, 520)
    assert grown(growth, 10, 11) == 20


def test_a_process_that_joins_counts_from_then_on(proc) -> None:
    growth = Growth(Processes(proc.root))
    proc.put(10, 0)
    grown(growth, 10)
    proc.put(12, 900)
    assert grown(growth, 10, 12) == 0
    proc.put(12, 930)
    assert grown(growth, 10, 12) == 30


def test_a_child_that_was_waited_for_counts_once(proc) -> None:
    growth = Growth(Processes(proc.root))
    proc.put(10, 0)
    proc.put(11, 0, parent=10, age_s=0)
    grown(growth, 10, 11)
    proc.put(11, 40, parent=10)
    assert grown(growth, 10, 11) == 40
    proc.end(11)
    proc.put(10, 45)  # the child's 40, what it wrote since, and nothing of its own
    assert grown(growth, 10) == 5


def test_a_zombie_is_followed_until_it_is_waited_for(proc) -> None:
    """Its group no longer lists it."""
    growth = Growth(Processes(proc.root))
    proc.put(10, 0)
    proc.put(11, 0, parent=10, age_s=0)
    grown(growth, 10, 11)
    proc.put(11, 40, parent=10, state="Z")
    assert grown(growth, 10) == 40
    assert grown(growth, 10) == 0
    proc.end(11)
    proc.put(10, 40)
    assert grown(growth, 10) == 0


def test_a_process_that_left_no_longer_counts(proc) -> None:
    growth = Growth(Processes(proc.root))
    proc.put(10, 0)
    proc.put(11, 0)
    grown(growth, 10, 11)
    proc.put(11, 40)
    assert grown(growth, 10) == 0


def test_the_real_proc_has_what_a_child_dirtied(tmp_path) -> None:
    """The file is on the test's own volume: on tmpfs nothing is counted."""
    processes = Processes()
    before = processes.dirtied_bytes(os.getpid())
    assert before is not None
    origin = processes.origin(os.getpid())
    assert origin
    assert origin.parent == os.getppid()
    assert os.getpid() in processes.pids()
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - origin.started_ns / SECOND_NS
    assert 0 <= age_s < 24 * 3600
    assert processes.origin(2**22 + 1) is None
    assert processes.dirtied_bytes(2**22 + 1) is None


# --- names -----------------------------------------------------------------------------------


class Scene:
    """Writers with a clock, and a volume onto which data arrives."""

    def __init__(self, proc, admitted, look_takes_ns=0):
        self.time_ns = 0
        self.dirtied = 0
        self._cpu_ns, self._look_takes_ns = 0, look_takes_ns
        self._writers = Writers(
            admitted,
            None,
            Processes(proc.root),
            clock_ns=lambda: self.time_ns,
            cpu_ns=self._next_cpu_ns,
        )

    def _next_cpu_ns(self):
        """A look asks when it begins and when it ends."""
        self._cpu_ns += self._look_takes_ns
        return self._cpu_ns

    def look(self, arrived_mib=0, is_busy=True):
        self.time_ns += SECOND_NS // 20
        self.dirtied += arrived_mib * MIB
        volumes = (VolumeState(0, 0, self.dirtied, 0),)
        return self._writers.look(volumes, is_busy=is_busy)


def test_programs_of_the_name_count_with_what_they_started(proc) -> None:
    scene = Scene(proc, Admission(comms=("pull.sh",)))
    proc.put(10, 0, comm="pull.sh")
    proc.put(11, 0, comm="s5cmd", parent=10)
    proc.put(12, 0, comm="tar", parent=11)
    proc.put(13, 0, comm="s5cmd")
    scene.look()
    for pid, parent in ((11, 10), (12, 11), (13, 1)):
        proc.put(pid, 8, parent=parent)
    seen = scene.look(24)
    assert (seen.admitted_bytes, dict(seen.writes)) == (16 * MIB, {"pull.sh": 16 * MIB})


def test_a_program_that_is_started_by_a_young_process_is_recognised(proc) -> None:
    scene = Scene(proc, Admission(comms=("s5cmd",)))
    proc.put(10, 0, comm="sh", age_s=0)
    scene.look()
    proc.put(10, 8, comm="s5cmd", age_s=0)
    assert scene.look(8).admitted_bytes == 8 * MIB


def test_what_goes_to_other_volumes_is_not_admitted(proc) -> None:
    scene = Scene(proc, Admission(comms=("s5cmd",)))
    proc.put(10, 0)
    scene.look()
    proc.put(10, 500)
    assert scene.look(0).admitted_bytes == 0


def test_without_admission_nothing_is_read_before_data_arrives(proc) -> None:
    scene = Scene(proc, Admission())
    proc.put(10, 0)
    proc.put(11, 0, comm="backup", age_s=0)
    assert scene.look(0).admitted_bytes is None
    proc.put(11, 50, comm="backup", age_s=0.2)
    assert scene.look(50, is_busy=False).writes == {}
    proc.put(10, 3)
    assert dict(scene.look(20).writes) == {"s5cmd": 0, "backup": 50 * MIB}


def test_looks_that_take_long_become_rare(proc) -> None:
    proc.put(10, 0)

    def looks(admitted, takes_ms, is_busy):
        """Return how many looks there are in 15 s."""
        scene = Scene(proc, admitted, takes_ms * 1_000_000)
        return sum(bool(scene.look(1, is_busy=is_busy).writes) for _ in range(300))

    some = Admission(comms=("s5cmd",))
    assert looks(some, 0, is_busy=True) == 300
    assert looks(some, 10, is_busy=True) == 100  # every 150 ms
    assert looks(some, 1, is_busy=False) == 15  # 0.1 % of the time
    assert looks(Admission(), 20, is_busy=True) == 30  # 4 %


# --- control groups --------------------------------------------------------------------------


class GroupsHost(FilesHost):
    """A host of files with control groups."""

    def mounted(self, table):
        self.put("/proc/self/mountinfo", table)
        controllers = "4:memory:/\n" if "memory" in table else ""
        self.put("/proc/self/cgroup", f"{controllers}0::/")
        return self

    def group(self, folder, pids=(), **files):
        self.put(f"{folder}/cgroup.procs", "\n".join(map(str, pids)))
        for name, value in files.items():
            self.put(f"{folder}/memory.{name}", value)
        return self


STAT_V2 = f"""anon 5
file_dirty {20 * MIB}
file_writeback {10 * MIB}
inactive_file {90 * MIB}
active_file {10 * MIB}"""
STAT_V1 = f"""dirty 1
total_dirty {20 * MIB}
total_writeback 0
total_inactive_file {90 * MIB}
total_active_file 0"""
PSI = "some avg10=0.00 total=15\nfull avg10=0.00 total=7"


@pytest.fixture
def host(tmp_path):
    return GroupsHost(tmp_path / "host")


def test_processes_of_a_group_and_of_those_below_it(host) -> None:
    groups = ControlGroups(host.mounted(V2))
    host.group(f"/sys/fs/cgroup{PATH}", (5, 6)).group(f"/sys/fs/cgroup{PATH}/child", (7,))
    host.group("/sys/fs/cgroup/system.slice/other.service", (8,))
    assert groups.processes(PATH) == {5, 6, 7}
    assert groups.absent((PATH, "/absent")) == ("/absent",)
    assert groups.processes("/absent") == set()


def test_version_1_has_the_group_in_the_hierarchy_of_memory_or_of_systemd(host) -> None:
    groups = ControlGroups(host.mounted(V1))
    host.group("/sys/fs/cgroup/systemd/system.slice/a.service", (5,))
    host.group("/sys/fs/cgroup/memory/ecs/task", (6,))
    assert groups.processes("/system.slice/a.service") == {5}
    assert groups.processes("/ecs/task") == {6}


def test_without_control_groups_admission_by_them_is_refused(host) -> None:
    host.put("/proc/self/mountinfo", "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n")
    with pytest.raises(RequirementError, match="none are mounted"):
        ControlGroups(host)


def test_the_memory_of_a_version_2_group_and_of_those_above_it(host) -> None:
    groups = ControlGroups(host.mounted(V2))
    host.group(
        "/sys/fs/cgroup/system.slice", max=900 * MIB, high="max", current=600 * MIB, stat=STAT_V2
    )
    host.group(
        f"/sys/fs/cgroup{PATH}",
        max="max",
        high=200 * MIB,
        current=150 * MIB,
        stat=STAT_V2,
        pressure=PSI,
    )
    memory = groups.memory(PATH)
    assert memory
    assert memory.levels == (
        LimitedMemory(900 * MIB, 600 * MIB, 100 * MIB, 30 * MIB),
        LimitedMemory(200 * MIB, 150 * MIB, 100 * MIB, 30 * MIB),
    )
    assert memory.use == GroupUse(100 * MIB, 30 * MIB, 50 * MIB)
    assert (memory.some_ns, memory.full_ns) == (15_000, 7_000)
    assert not memory.is_short(0.05)


def test_the_memory_of_a_version_1_group_has_no_dirty_limit(host) -> None:
    groups = ControlGroups(host.mounted(V1))
    host.group(
        "/sys/fs/cgroup/memory/task",
        limit_in_bytes=100 * MIB,
        usage_in_bytes=99 * MIB,
        stat=STAT_V1,
    )
    memory = groups.memory("/task")
    assert memory
    assert memory.levels == (LimitedMemory(100 * MIB, 99 * MIB, 90 * MIB, 20 * MIB),)
    assert memory.use is None
    assert memory.room_bytes({}, 0, 0) == 71 * MIB


def test_a_group_without_limit_or_that_is_gone_limits_nothing(host) -> None:
    groups = ControlGroups(host.mounted(V2))
    host.group(f"/sys/fs/cgroup{PATH}", max="max", high="max", current=1, stat=STAT_V2)
    memory = groups.memory(PATH)
    assert memory
    assert memory.levels == ()
    assert groups.memory("/absent") is None


# --- the option ------------------------------------------------------------------------------


def test_the_words_of_the_option() -> None:
    found = admission(["comm=s5cmd", f"cgroup={PATH}/", "comm=aws", "comm=s5cmd"])
    assert found == Admission((PATH,), ("s5cmd", "aws"))
    assert admission(found.words) == found
    assert not admission([])


@pytest.mark.parametrize(
    "word",
    (
        *("s5cmd", "/data", "comm=", "comm=a-name-of-sixteen", "comm=a\nb"),
        *("cgroup=", "cgroup=/", "cgroup=a/b", "cgroup=/a/../b", "cgroup=/a//b", "cgroup=/a\x1bb"),
    ),
)
def test_a_word_that_admits_nothing_is_refused(word) -> None:
    with pytest.raises(UsageError):
        admission([word])


def test_a_name_that_is_too_long_is_shown_as_the_kernel_keeps_it() -> None:
    with pytest.raises(UsageError) as refused:
        admission(["comm=mount-s3-daemonized"])
    assert "comm=mount-s3-daemon," in str(refused.value.hint)
