# SPDX-License-Identifier: Apache-2.0
"""Knobs of a real disk (a loop device): set, read back, restored; also after SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from sysctl.host import devices
from sysctl.host.changes import DeviceOriginals
from sysctl.host.devices import Disk, disk_of, present_values, read_attribute, schedulers
from sysctl.host.host import Host
from sysctl.host.mount_table import mount_of
from sysctl.host.probe import judge_device_values
from sysctl.host.system import HostError, System
from tests.root.labs import lab_volume

SYSTEM = System()


def others(than):
    """Return the knobs of every other disk, which must not change, by name and disk."""
    found = {}
    for path in SYSTEM.path("/sys/block").iterdir():
        disk = Disk(path.name, SYSTEM.read(f"/sys/block/{path.name}/dev"), "")
        if path.name != than:
            sequence = SYSTEM.read(f"/sys/block/{path.name}/diskseq")
            found[path.name, sequence] = devices.kept_values(SYSTEM, disk)
    return found


@pytest.fixture
def disk(tmp_path):
    with lab_volume(tmp_path / "state") as (_, found):
        beside = others(found.name)
        yield found
    after = others(found.name)  # another program may attach a disk during the test
    assert [name for name in beside if after.get(name, beside[name]) != beside[name]] == []


def read(disk, *attributes):
    return tuple(read_attribute(SYSTEM, disk, attribute) for attribute in attributes)


def another_scheduler(disk):
    present = read_attribute(SYSTEM, disk, "queue/scheduler")
    offered = [name for name in schedulers(SYSTEM, disk) if name != present]
    if not offered:
        pytest.skip("this kernel offers one scheduler only; load another, as in modprobe bfq")
    return "mq-deadline" if "mq-deadline" in offered else offered[0]


def test_the_disk_of_a_mount_is_its_own(disk):
    assert SYSTEM.read(f"/sys/block/{disk.name}/loop/backing_file").endswith("/state/image")
    assert SYSTEM.read(f"/sys/block/{disk.name}/dev") == disk.number


def test_a_scheduler_comes_first_and_leaves_nothing_behind(disk):
    name = another_scheduler(disk)
    before = read(disk, "queue/scheduler", "queue/nr_requests")
    with Host.exclusive("sweep", "test") as host:
        host.set_device(disk, {"queue/nr_requests": "77", "queue/scheduler": name})
        assert read(disk, "queue/scheduler", "queue/nr_requests") == (name, "77")
        host.set_device(disk, {"queue/scheduler": name})
        assert read(disk, "queue/scheduler")[0] == name
        assert read(disk, "queue/nr_requests") != ("77",), "the scheduler's own is meant"
        host.set_device(disk, {})
        assert read(disk, "queue/scheduler", "queue/nr_requests") == before
        assert any(disk.name in line for line in host.pending())
    assert read(disk, "queue/scheduler", "queue/nr_requests") == before


def test_what_a_setting_does_not_name_is_as_before(disk):
    before = read(disk, "queue/read_ahead_kb")
    with Host.exclusive("sweep", "test") as host:
        host.set_device(disk, {"queue/read_ahead_kb": "512"})
        host.set_device(disk, {"queue/nr_requests": "64"})
        assert read(disk, "queue/read_ahead_kb", "queue/nr_requests") == (*before, "64")


def test_shares_of_dirty_memory_come_back_to_a_millionth(disk):
    if "bdi/max_bytes" not in present_values(SYSTEM, disk):
        pytest.skip("this kernel has no bdi/max_bytes; it came with Linux 6.2")
    with Host.exclusive("outer", "a host with a share of its own") as outer:
        outer.set_device(disk, {"bdi/max_bytes": str(300 * 2**20 + 12345)})
        exact = read(disk, "bdi/max_ratio_fine")
        with Host.exclusive("sweep", "test") as host:
            host.set_device(disk, {"bdi/max_bytes": str(100 * 2**20), "bdi/strict_limit": "1"})
            host.set_device(disk, {"bdi/max_ratio": "90", "bdi/min_bytes": str(400 * 2**20)})
            assert read(disk, "bdi/strict_limit", "bdi/max_ratio") == ("0", "90")
        assert read(disk, "bdi/max_ratio_fine") == exact, "min is above it until it is lowered"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"queue/scheduler": "nothing-such"}, "offers the schedulers"),
        ({"queue/nr_requests": "1"}, "reads back as"),
        ({"queue/read_ahead_kb": "3"}, "reads back as"),
        ({"bdi/max_bytes": str(2**60)}, "Invalid argument"),
    ],
)
def test_a_value_that_does_not_take_is_an_error_and_is_judged_so(disk, values, says):
    with Host.exclusive("sweep", "test") as host:
        (verdict,) = judge_device_values(host, disk, {n: (v,) for n, v in values.items()})
        assert not verdict.usable and says in verdict.reason
        assert host.pending() == []
        with pytest.raises(HostError, match=says):
            host.set_device(disk, values)


def test_what_this_disk_takes_is_tried_and_taken_back(disk):
    before = devices.kept_values(SYSTEM, disk)
    with Host.exclusive("sweep", "test") as host:
        verdicts = judge_device_values(
            host, disk, {"queue/read_ahead_kb": ("128", "4096"), "queue/missing": ("1",)}
        )
        assert [v.usable for v in verdicts] == [True, True, False]
        assert host.pending() == []
        assert devices.kept_values(SYSTEM, disk) == before


KILLED = """
    import os, signal
    from sysctl.host.devices import Disk
    from sysctl.host.host import Host
    with Host.exclusive("sweep", "to be killed") as host:
        host.set_device({disk!r}, {{"queue/nr_requests": "33", "queue/read_ahead_kb": "64"}})
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_sigkill_the_next_start_restores(disk):
    before = read(disk, "queue/nr_requests", "queue/read_ahead_kb")
    script = textwrap.dedent(KILLED).format(disk=disk)
    done = subprocess.run([sys.executable, "-c", script], cwd=os.getcwd())
    assert done.returncode == -signal.SIGKILL
    assert read(disk, "queue/nr_requests", "queue/read_ahead_kb") == ("33", "64")
    with Host.exclusive("sweep", "recovery") as host:
        assert any("queue/nr_requests = " in change for change in host.recovered)
    assert read(disk, "queue/nr_requests", "queue/read_ahead_kb") == before


def test_another_disk_of_that_name_is_left_alone(disk):
    with Host.exclusive("sweep", "test") as host:
        host.set_device(disk, {"queue/nr_requests": "33"})
        earlier = Disk(disk.name, disk.number, str(int(disk.sequence) - 1))
        values = {"queue/nr_requests": "44"}
        DeviceOriginals(earlier.name, earlier.number, earlier.sequence, values).undo(SYSTEM)
        assert read(disk, "queue/nr_requests") == ("33",)
        DeviceOriginals(disk.name, disk.number, disk.sequence, values).undo(SYSTEM)
        assert read(disk, "queue/nr_requests") == ("44",)


def test_a_mount_on_no_disk_is_refused():
    with pytest.raises(HostError, match="not on one disk"):
        disk_of(SYSTEM, mount_of(SYSTEM.mounts(), "/proc"))
