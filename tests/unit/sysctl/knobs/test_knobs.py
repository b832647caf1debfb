# SPDX-License-Identifier: Apache-2.0
"""The knobs' data hangs together, and a setting with knobs of a disk comes back from a file."""

from __future__ import annotations

import dataclasses
import json

import pytest

from contracts.shared.errors import UsageError
from profiler.cli.main import build_parser
from profiler.cli.options import STRATEGIES
from profiler.cli.space_arguments import space_of
from profiler.study.space import Place, Space, make_search
from sysctl.evidence.price import Limits
from sysctl.evidence.results import load
from sysctl.host import devices
from sysctl.host.host import Host
from sysctl.host.mount_table import parse_mountinfo
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.catalogue import DEVICE_BY_NAME, DEVICE_KNOBS
from sysctl.knobs.mount import find, wide_texts
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import BY_NAME, KNOBS
from sysctl.search.strategies import NAMES
from tests.unit.applied_hosts import FilesHost
from tests.unit.sweeps import circumstances, sweep


def test_names_and_flags_are_each_given_once():
    flags = [*(knob.flag for knob in KNOBS), *(knob.flag for knob in DEVICE_KNOBS)]
    assert len(flags) == len(set(flags)) == len(BY_NAME) + len(DEVICE_BY_NAME)


@pytest.mark.parametrize("knob", DEVICE_KNOBS, ids=lambda knob: knob.name)
def test_a_knob_names_existing_things_and_accepts_the_values_it_tries(knob):
    assert knob.name.partition("/")[0] in ("queue", "bdi")
    assert all(knob.refusal(value) is None for value in knob.wide)
    assert {*knob.resets} <= set(DEVICE_BY_NAME)
    if knob.counterpart:
        assert DEVICE_BY_NAME[knob.counterpart].counterpart == knob.name
        assert DEVICE_BY_NAME[knob.counterpart].exact == knob.exact


def test_sysctls_and_mount_options_of_a_wide_sweep_are_in_range_and_safe():
    assert all(knob.minimum <= value <= knob.maximum for knob in KNOBS for value in knob.wide)
    for fstype in ("xfs", "ext4"):
        assert wide_texts(fstype)
        assert all("UNSAFE" not in find(text, fstype).risk for text in wide_texts(fstype))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("queue/nr_requests", "64", ""),
        ("queue/nr_requests", "3", "out of range; use 4 to 10240 requests"),
        ("queue/nr_requests", "064", "out of range"),
        ("queue/nr_requests", "-1", "not a whole number"),
        ("queue/nr_requests", "9" * 30, "not a whole number"),
        ("queue/scheduler", "mq-deadline", ""),
        ("queue/scheduler", "none\nx", "not a valid name"),
        ("queue/scheduler", "[none]", "not a valid name"),
        ("bdi/strict_limit", "2", "out of range"),
    ],
)
def test_an_invalid_value_is_refused_with_one_sentence(name, text, says):
    refusal = DEVICE_BY_NAME[name].refusal(text)
    assert (says in refusal) if says else refusal is None


# --- settings and results ---------------------------------------------------------------------

SETTING = Setting(
    (("vm.dirty_ratio", 40),), None, (("queue/scheduler", "none"), ("bdi/max_ratio", "50"))
)


def test_a_setting_prints_and_comes_back_with_its_knobs_of_the_disk():
    assert str(SETTING) == "dirty_ratio=40 queue/scheduler=none bdi/max_ratio=50"
    assert Setting.from_json(json.loads(json.dumps(SETTING.to_json()))) == SETTING


def test_results_with_knobs_of_the_disk_come_back_and_others_are_refused(tmp_path):
    results = sweep()
    results.trials[-1] = dataclasses.replace(results.trials[-1], setting=SETTING)
    results.save(tmp_path / "r.json")
    assert load(tmp_path / "r.json").trials == results.trials
    document = json.loads((tmp_path / "r.json").read_text())
    for device in ({"queue/other": "1"}, {"queue/nr_requests": "many"}, {"../x": "1"}):
        document["trials"][-1]["setting"]["device"] = device
        (tmp_path / "bad.json").write_text(json.dumps(document))
        with pytest.raises(UsageError, match="damaged"):
            load(tmp_path / "bad.json")


# --- flags --------------------------------------------------------------------------------------


def asked(*flags):
    return space_of(build_parser().parse_args(["sweep", "s3://b/p", "/data", *flags]))


def test_the_strategies_of_the_command_line_are_those_there_are():
    assert STRATEGIES == NAMES


def test_each_knob_has_a_flag():
    for knob in DEVICE_KNOBS:
        value = knob.wide[0] if knob.wide else str(knob.minimum)
        assert asked(knob.flag, value).device == {knob.name: (value,)}


def test_values_are_lists_and_unnamed_knobs_are_not_requested():
    space = asked("--queue-scheduler", "none,mq-deadline,none", "--dirty-ratio", "40,60,40")
    assert space.device == {"queue/scheduler": ("none", "mq-deadline")}
    assert space.values == {"vm.dirty_ratio": (40, 60)}
    assert asked().values == asked().device == {} and not asked().wide
    assert asked("--space", "wide").wide
    assert asked().vm and not asked().transfer and asked("--space", "default") == asked()
    twice = asked("--mount-options", "noatime", "--mount-options", "noatime")
    assert twice.mount_options == ("noatime",)
    joint, alone = asked("--space", "transfer,vm"), asked("--space", "transfer")
    assert joint.transfer and joint.vm and alone.transfer and not alone.vm


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--nr-requests", "2"), "--nr-requests: 2 is out of range"),
        (("--queue-scheduler", "a b"), "not a valid name"),
        (("--bdi-max-ratio", "50", "--bdi-max-bytes", "9000"), "set the same limit"),
        (("--dirty-ratio", "50", "--dirty-bytes", "9000"), "set the same threshold"),
        (("--dirty-ratio", "0"), "out of range"),
    ],
)
def test_wrong_values_are_named_before_anything_is_done(flags, says):
    with pytest.raises(UsageError, match=says):
        asked(*flags)


@pytest.mark.parametrize("text", ["", ",", "none,"])
def test_a_list_with_nothing_in_it_is_refused(text, capsys):
    with pytest.raises((SystemExit, UsageError)):
        asked("--queue-scheduler", text)


# --- a disk of files ----------------------------------------------------------------------------


class FileDisk(System):
    """A host of files with one NVMe disk; its partition 1 is mounted."""

    def __init__(self, root, scheduler="[none] mq-deadline"):
        super().__init__(root, run=lambda argv: "")
        self.put("/sys/devices/nvme1n1/dev", "259:0\n")
        self.put("/sys/devices/nvme1n1/diskseq", "11")
        self.put("/sys/devices/nvme1n1/mq/0/nr_tags", "1023")
        self.put("/sys/devices/nvme1n1/queue/scheduler", scheduler)
        self.put("/sys/devices/nvme1n1/queue/nr_requests", "1023")
        self.put("/sys/devices/nvme1n1/nvme1n1p1/partition", "1")
        self.put("/sys/class/bdi/259:0/max_ratio", "100")
        for path, target in (
            ("block/nvme1n1", "nvme1n1"),
            ("dev/block/259:1", "nvme1n1/nvme1n1p1"),
        ):
            link = self.path(f"/sys/{path}")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(self.path(f"/sys/devices/{target}"))

    def put(self, path, text):
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)


MOUNT = parse_mountinfo("22 1 259:1 / /data rw - xfs /dev/nvme1n1p1 rw")[0]


def test_a_partition_stands_for_its_disk(tmp_path):
    system = FileDisk(tmp_path)
    disk = devices.disk_of(system, MOUNT)
    assert disk == devices.Disk("nvme1n1", "259:0", "11")
    assert devices.present_values(system, disk) == {
        "queue/scheduler": "none",
        "queue/nr_requests": "1023",
        "bdi/max_ratio": "100",
    }
    assert devices.kept_values(system, disk)["bdi/max_ratio"] == "100", "older kernels have no fine"


def test_a_mount_on_no_single_disk_is_refused(tmp_path):
    system = FileDisk(tmp_path)
    with pytest.raises(HostError, match=r"/data \(xfs\) is not on one disk"):
        devices.disk_of(system, dataclasses.replace(MOUNT, device="0:40"))


def with_volume(system):
    """A logical volume on the disk, as Linux 6.1 shows it: with files of a queue that it lacks."""
    for path, text in {
        "dev": "253:0\n",
        "diskseq": "12",
        "queue/scheduler": "none",
        "queue/nr_requests": "128",
        "queue/read_ahead_kb": "128",
    }.items():
        system.put(f"/sys/devices/dm-0/{path}", text)
    system.put("/sys/class/bdi/253:0/max_ratio", "100")
    slaves = system.path("/sys/devices/dm-0/slaves")
    slaves.mkdir()
    (slaves / "nvme1n1p1").symlink_to(system.path("/sys/devices/nvme1n1/nvme1n1p1"))
    for path in ("block/dm-0", "dev/block/253:0"):
        system.path(f"/sys/{path}").symlink_to(system.path("/sys/devices/dm-0"))
    return devices.disk_of(system, dataclasses.replace(MOUNT, device="253:0"))


NO_QUEUE = "dm-0 has no request queue of its own (it is on nvme1n1p1)"


def test_a_device_made_of_others_has_read_ahead_and_shares_and_no_queue_of_requests(tmp_path):
    system = FileDisk(tmp_path)
    disk = with_volume(system)
    assert disk == devices.Disk("dm-0", "253:0", "12")
    own = {"queue/read_ahead_kb": "128", "bdi/max_ratio": "100"}
    assert devices.present_values(system, disk) == devices.kept_values(system, disk) == own
    for name in ("queue/scheduler", "queue/nr_requests", "queue/wbt_lat_usec"):
        assert devices.lacking(system, disk, name) == NO_QUEUE
    devices.write_values(system, disk, {"queue/read_ahead_kb": "4096"})
    assert system.read("/sys/block/dm-0/queue/read_ahead_kb") == "4096"
    with pytest.raises(
        HostError, match="queue/nr_requests cannot be set: dm-0 has no request queue"
    ):
        devices.write_values(system, disk, {"queue/nr_requests": "64"})
    assert system.read("/sys/block/dm-0/queue/nr_requests") == "128"


@pytest.mark.parametrize(
    "asked_for", [Space(wide=True), Space(device={"queue/nr_requests": ["64"]})]
)
def test_a_sweep_leaves_out_what_a_device_made_of_others_lacks(tmp_path, asked_for):
    system = FilesHost(tmp_path / "root")
    disk = with_volume(FileDisk(tmp_path / "root"))
    host = Host(tmp_path / "state", "sweep", system)
    mount = dataclasses.replace(MOUNT, device="253:0", fstype="ext4")
    present = asked_for.present(read_writeback(system))
    values = {"vm.dirty_ratio": (40,), "vm.dirty_background_ratio": (5,)}
    asked_for = dataclasses.replace(asked_for, values=values, strategy="grid")
    place = Place(host, "/data", mount, disk)
    _, extras, left_out = make_search(
        asked_for, place, present, Limits(), circumstances(dirtyable_bytes=2**30)
    )
    reasons = {item.what.partition("=")[0]: item.why for item in left_out}
    assert reasons["queue/nr_requests"] == NO_QUEUE
    assert "queue/nr_requests" not in {extra.name for extra in extras}


def test_a_scheduler_that_is_not_offered_is_never_written(tmp_path):
    system = FileDisk(tmp_path)
    disk = devices.disk_of(system, MOUNT)
    written = []
    system.write = lambda absolute, text: written.append(absolute)
    with pytest.raises(HostError, match="offers the schedulers none, mq-deadline, not bfq"):
        devices.write_values(system, disk, {"queue/scheduler": "bfq"})
    assert written == []


def test_another_disk_with_the_same_name_is_recognized(tmp_path):
    system = FileDisk(tmp_path)
    disk = devices.disk_of(system, MOUNT)
    assert devices.is_there(system, disk)
    system.put("/sys/block/nvme1n1/diskseq", "12")
    assert not devices.is_there(system, disk)
    with pytest.raises(HostError, match="no longer the same disk"):
        devices.write_values(system, disk, {"queue/nr_requests": "64"})
    assert system.read("/sys/block/nvme1n1/queue/nr_requests") == "1023"
