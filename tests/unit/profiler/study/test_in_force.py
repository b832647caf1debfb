# SPDX-License-Identifier: Apache-2.0
"""A trial whose sysctls, mount or disk another program changed is invalid, and says what it was."""

from __future__ import annotations

import pytest

from profiler.bpf.probes.block import DeviceTotals
from profiler.study.bench import PullBench, check_memory
from profiler.study.in_force import read_in_force, unchanged
from profiler.watch.timeline import Sample, Timeline
from profiler.watch.trace import trace_of
from sysctl.evidence.results import PRESENT, Results
from sysctl.host.devices import Disk
from sysctl.host.host import Host
from sysctl.host.system import HostError, System
from sysctl.knobs.writeback import Thresholds
from sysctl.sweep.steps import Step, run_trial
from tests.unit.sweeps import CIRCUMSTANCES, MadeUpBench
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

DISK = Disk("nvme1n1", "259:0", "11")
MOUNTED = "22 1 259:0 / /data rw,{options} - xfs /dev/nvme1n1 rw,logbsize=32k\n"
FILES = {
    "/proc/sys/vm/dirty_ratio": "20",
    "/proc/sys/vm/dirty_background_ratio": "10",
    "/proc/sys/vm/dirty_bytes": "0",
    "/proc/sys/vm/dirty_background_bytes": "0",
    "/proc/sys/vm/dirty_expire_centisecs": "3000",
    "/proc/sys/vm/dirty_writeback_centisecs": "500",
    "/proc/vmstat": "nr_dirty_threshold 200000\nnr_dirty_background_threshold 100000\n",
    "/proc/self/mountinfo": MOUNTED.format(options="relatime"),
    "/proc/sys/kernel/random/boot_id": "boot",
    "/sys/block/nvme1n1/dev": "259:0",
    "/sys/block/nvme1n1/diskseq": "11",
    "/sys/block/nvme1n1/mq/0/nr_tags": "128",
    "/sys/block/nvme1n1/queue/scheduler": "[none] mq-deadline",
    "/sys/block/nvme1n1/queue/read_ahead_kb": "128",
    "/sys/class/bdi/259:0/max_ratio": "100",
}


class FileHost(System):
    """A host of `FILES`."""

    def __init__(self, root):
        super().__init__(root, run=lambda argv: "")
        for path, text in FILES.items():
            self.put(path, text)

    def put(self, path, text):
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)


def test_a_host_that_nobody_touches_is_as_before(tmp_path):
    system = FileHost(tmp_path)
    before = read_in_force(system, "/data", DISK)
    assert before.knobs == {
        "queue/scheduler": "none",
        "queue/read_ahead_kb": "128",
        "bdi/max_ratio": "100",
    }
    assert before.changes(read_in_force(system, "/data", DISK)) == []
    assert read_in_force(system, "/data", None).knobs == {}


CHANGES = [
    ("/proc/sys/vm/dirty_expire_centisecs", "100", "vm.dirty_expire_centisecs"),
    ("/sys/block/nvme1n1/queue/scheduler", "none [mq-deadline]", "queue/scheduler"),
    ("/sys/block/nvme1n1/queue/read_ahead_kb", "4096", "queue/read_ahead_kb"),
    ("/sys/class/bdi/259:0/max_ratio", "50", "bdi/max_ratio"),
    (
        "/proc/self/mountinfo",
        MOUNTED.format(options="noatime"),
        "mount option noatime, mount option relatime",
    ),
    ("/proc/self/mountinfo", "22 1 8:0 / / rw - ext4 /dev/sda rw\n", "the mount"),
]


@pytest.mark.parametrize(("path", "text", "names"), CHANGES)
def test_what_another_program_changed_is_named(tmp_path, path, text, names):
    system = FileHost(tmp_path)
    before = read_in_force(system, "/data", DISK)
    system.put(path, text)
    assert ", ".join(before.changes(read_in_force(system, "/data", DISK))) == names


def test_a_replaced_disk_is_an_error(tmp_path):
    system = FileHost(tmp_path)
    system.put("/sys/block/nvme1n1/diskseq", "12")
    with pytest.raises(HostError, match="nvme1n1 is no longer the same disk"):
        read_in_force(system, "/data", DISK)


class Disturbed(MadeUpBench):
    """A bench during whose pulls another program writes a file of the host.

    What it checks is what `PullBench` checks; the pull is made up.
    """

    def __init__(self, system, state, path, text):
        super().__init__()
        fields = ("pool", "plan", "contract", "session", "limits", "say", "on_phase")
        self.checked = PullBench(
            host=Host(state, "test", system),
            destination=system.path("/data"),
            mount_target="/data",
            disk=DISK,
            **dict.fromkeys(fields),
        )
        self.disturb = lambda: system.put(path, text)

    def measure(self, *, durable, stop_after_s=None, observe_price=False):
        with unchanged(self.checked.host.system, "/data", DISK):
            self.disturb()
            return super().measure(durable=durable, stop_after_s=stop_after_s)


@pytest.mark.parametrize(("path", "text", "names"), CHANGES)
def test_the_trial_is_invalid_with_its_reason(tmp_path, path, text, names):
    bench = Disturbed(FileHost(tmp_path), tmp_path / "state", path, text)
    step = Step(PRESENT, PRESENT_SETTING, durable=False, remaining=0)
    trial = run_trial(bench, step, Results(CIRCUMSTANCES, {}))
    assert trial.valid is None
    assert trial.problem == f"another program changed {names} during the trial"


def test_a_calm_host_leaves_the_trial_valid(tmp_path):
    path = "/proc/sys/vm/dirty_ratio"
    bench = Disturbed(FileHost(tmp_path), tmp_path / "state", path, FILES[path])
    step = Step(PRESENT, PRESENT_SETTING, durable=False, remaining=0)
    assert run_trial(bench, step, Results(CIRCUMSTANCES, {})).valid


@pytest.mark.parametrize(
    ("path", "text", "names"), [change for change in CHANGES if "/proc/sys/" not in change[0]]
)
def test_what_another_program_changed_between_trials_is_invalid_too(tmp_path, path, text, names):
    system = FileHost(tmp_path)
    bench = Disturbed(system, tmp_path / "state", path, text).checked
    bench.apply(PRESENT_SETTING)
    system.put(path, text)
    with pytest.raises(HostError, match="since the sweep began") as caught:
        bench.apply(PRESENT_SETTING)
    assert names in caught.value.message
    system.put(path, FILES[path])
    bench.apply(PRESENT_SETTING)


def course(*dirty_thresholds):
    """A timeline in which the kernel's dirty threshold was that, sample for sample."""
    samples = tuple(
        Sample(number, 0, 0, Thresholds(value // 2, value))
        for number, value in enumerate(dirty_thresholds)
    )
    return Timeline(samples, samples[0], None)


@pytest.mark.parametrize("values", [(1000, 800, 1100, 1000), (1000, 1099), (1000,)])
def test_memory_that_a_pull_moves_briefly_is_not_a_reason(values):
    check_memory(course(*values))
    check_memory(None)


@pytest.mark.parametrize(("values", "moved"), [((1000, 600, 600), "-40%"), ((10, 12, 13), "+20%")])
def test_memory_that_differs_during_most_of_the_pull_is_a_reason(values, moved):
    with pytest.raises(HostError, match="dirtyable memory changed by") as caught:
        check_memory(course(*values))
    assert moved in caught.value.message


def test_the_course_has_what_all_disks_of_a_striped_volume_wrote():
    written = ((100, 50, 7), (400, 450, 7), (900, 1050, 7))
    samples = tuple(
        Sample(number, 0, 0, Thresholds(1, 2), devices=tuple(DeviceTotals(0, each) for each in row))
        for number, row in enumerate(written)
    )
    timeline = Timeline(samples, samples[0], None, devices=("nvme1n1", "nvme2n1", "nvme0n1"))
    points = trace_of(timeline, {"nvme1n1", "nvme2n1"})
    assert [point.written_bytes for point in points] == [0, 700, 1800]
    assert trace_of(timeline, {"dm-0"}) == trace_of(None, {"nvme1n1"}) == ()
