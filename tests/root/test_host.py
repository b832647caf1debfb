# SPDX-License-Identifier: Apache-2.0
"""Changes to the real host: applied, read back, restored; also after SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from sysctl.host.host import Host
from sysctl.host.mount_table import mount_at
from sysctl.host.mounts import check_sweepable, loop_devices_of
from sysctl.host.probe import judge_options, make_file_system
from sysctl.host.sysctls import read_thresholds, read_writeback
from sysctl.host.system import HostError, System

SYSTEM = System()


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    before = read_writeback(SYSTEM)
    mounts = {mount.target for mount in SYSTEM.mounts()}
    yield tmp_path / "state"
    with Host.exclusive("sweep", "clean-up"):
        pass
    assert read_writeback(SYSTEM) == before
    assert {mount.target for mount in SYSTEM.mounts()} == mounts


def make_volume(host, fstype="xfs", options=""):
    target = host.directory / "volume"
    host.make_directory(target)
    host.make_sparse_file(host.directory / "image", 320 * 2**20)
    device = host.attach_loop_device(host.directory / "image")
    make_file_system(host, fstype, device)
    return host.mount(device, target, fstype, options)


def test_writeback_settings_are_applied_and_restored():
    before = read_writeback(SYSTEM)
    with Host.exclusive("sweep", "test") as host:
        host.set_writeback({"vm.dirty_ratio": 60, "vm.dirty_background_ratio": 5})
        assert read_writeback(SYSTEM)["vm.dirty_ratio"] == 60
        host.set_writeback({"vm.dirty_bytes": 2**28, "vm.dirty_background_bytes": 2**27})
        assert read_thresholds(SYSTEM).dirty_bytes == 2**28
        assert "vm.dirty_ratio" not in read_writeback(SYSTEM)
        assert host.pending() == [
            "vm.dirty_ratio = 20, vm.dirty_background_ratio = 10, "
            "vm.dirty_expire_centisecs = 3000, "
            "vm.dirty_writeback_centisecs = 500"
        ]
    assert read_writeback(SYSTEM) == before


def test_originals_in_bytes_come_back_as_bytes():
    with Host.exclusive("sweep", "outer") as outer:
        outer.set_writeback({"vm.dirty_bytes": 2**29, "vm.dirty_background_bytes": 2**28})
        with Host.exclusive("inner", "inner") as inner:
            inner.set_writeback({"vm.dirty_ratio": 5, "vm.dirty_background_ratio": 1})
        present = read_writeback(SYSTEM)
        assert present["vm.dirty_bytes"] == 2**29
        assert present["vm.dirty_background_bytes"] == 2**28
        assert "vm.dirty_background_ratio" not in present


KILLED = """
    import os, signal
    from sysctl.host.host import Host
    with Host.exclusive("sweep", "to be killed") as host:
        host.set_writeback({"vm.dirty_ratio": 77, "vm.dirty_background_ratio": 7})
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_sigkill_the_next_start_restores():
    before = read_writeback(SYSTEM)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED)])
    assert done.returncode == -signal.SIGKILL
    assert read_writeback(SYSTEM)["vm.dirty_ratio"] == 77
    with Host.exclusive("sweep", "recovery") as host:
        assert any("vm.dirty_ratio = 20" in change for change in host.recovered)
    assert read_writeback(SYSTEM) == before


def test_ctrl_c_twice_still_restores():
    script = KILLED.replace(
        "os.kill(os.getpid(), signal.SIGKILL)", "print('ready', flush=True); signal.pause()"
    )
    before = read_writeback(SYSTEM)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.wait(10)
    assert read_writeback(SYSTEM) == before


@pytest.mark.parametrize(
    ("fstype", "words", "how"),
    [
        ("xfs", ("noatime",), "remount"),
        ("xfs", ("noatime", "logbsize=256k"), "fresh mount"),
        ("ext4", ("noatime", "commit=30"), "remount"),
        ("ext4", ("data=writeback",), "fresh mount"),
        ("xfs", (), "remount"),
    ],
)
def test_mount_options_take_and_come_back(state, fstype, words, how):
    with Host.exclusive("lab", "volume") as lab:
        mount = make_volume(lab, fstype, "nosuid,nodiratime")
        with Host.exclusive("sweep", "options") as host:
            assert host.set_mount_options(mount.target, words) == how
            changed = mount_at(SYSTEM.mounts(), mount.target)
            assert "nosuid" in changed.options, "policy must not be lost"
            assert ("nodiratime" in changed.options) is False
            assert host.set_mount_options(mount.target, ("noatime",))
        restored = mount_at(SYSTEM.mounts(), mount.target)
        assert set(restored.all_options) == set(mount.all_options)


@pytest.mark.parametrize(("fstype", "option"), [("xfs", "largeio"), ("ext4", "nodelalloc")])
def test_an_option_that_is_in_no_table_goes_again(state, fstype, option):
    with Host.exclusive("lab", "volume") as lab:
        mount = make_volume(lab, fstype)
        with Host.exclusive("sweep", "options") as host:
            assert host.set_mount_options(mount.target, (option,)) == "fresh mount"
            assert host.set_mount_options(mount.target, ("noatime",)) == "fresh mount"
            assert option not in mount_at(SYSTEM.mounts(), mount.target).all_options
            host.set_mount_options(mount.target, (option,))
        assert mount_at(SYSTEM.mounts(), mount.target).all_options == mount.all_options


def test_a_background_threshold_of_0_comes_back():
    with Host.exclusive("outer", "a host with no background threshold") as outer:
        outer.set_writeback({"vm.dirty_background_ratio": 0})
        zero = read_writeback(SYSTEM)
        with Host.exclusive("sweep", "test") as host:
            host.set_writeback({"vm.dirty_ratio": 40, "vm.dirty_background_ratio": 10})
        assert read_writeback(SYSTEM) == zero
        with Host.exclusive("sweep", "test") as host:
            host.set_writeback({"vm.dirty_bytes": 2**30, "vm.dirty_background_bytes": 2**28})
        assert read_writeback(SYSTEM) == zero


def test_a_refused_option_leaves_the_volume_mounted_in_the_end(state):
    with Host.exclusive("lab", "volume") as lab:
        mount = make_volume(lab)
        with Host.exclusive("sweep", "options") as host, pytest.raises(HostError, match="mount"):
            host.set_mount_options(mount.target, ("nobarrier",))
        assert mount_at(SYSTEM.mounts(), mount.target).all_options == mount.all_options


def test_a_volume_in_use_is_named_with_its_user(state):
    with Host.exclusive("lab", "volume") as lab:
        mount = make_volume(lab)
        assert check_sweepable(SYSTEM, mount.target) == mount
        named = pytest.raises(HostError, match=f"process {os.getpid()}")
        with open(f"{mount.target}/file", "w"), named:
            check_sweepable(SYSTEM, mount.target)
        with pytest.raises(HostError, match="on /"):
            check_sweepable(SYSTEM, "/usr")


def test_this_kernel_is_asked_which_options_it_takes(state):
    words = ("noatime", "logbsize=256k", "nobarrier", "osyncisdsync", "nodirtime", "noauto")
    with Host.exclusive("sweep", "probe") as host:
        verdicts = {verdict.word: verdict for verdict in judge_options(host, "xfs", words)}
        assert host.pending() == []
    assert [word for word in words if verdicts[word].usable] == ["noatime", "logbsize=256k"]
    assert "nodiratime" in verdicts["nodirtime"].reason
    assert "fstab" in verdicts["noauto"].reason


def test_loop_devices_and_files_go(state):
    with Host.exclusive("lab", "volume") as host:
        mount = make_volume(host)
        image = str(state / "image")
        assert loop_devices_of(SYSTEM, image) == [mount.source]
    assert loop_devices_of(SYSTEM, image) == []
    assert not (state / "image").exists()
    assert not (state / "volume").exists()
