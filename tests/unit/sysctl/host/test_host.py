# SPDX-License-Identifier: Apache-2.0
"""The journal, the mount table and the order of sysctl writes, on a host of files."""

from __future__ import annotations

import errno
import json
import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared.errors import UsageError
from contracts.shared.trust import UntrustedError
from sysctl.host import changes, sysctls
from sysctl.host.changes import NewPath, WritebackOriginals
from sysctl.host.host import Host, state_directory
from sysctl.host.journal import Journal, JournalError, private_directory
from sysctl.host.lock import LockedError, exclusive_lock
from sysctl.host.mount_table import is_below, mount_of, parse_mountinfo
from sysctl.host.mounts import needs_fresh_mount, wanted_options, words_of
from sysctl.host.system import HostError, System
from sysctl.knobs.vm import KNOBS

TABLE = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 22 7:0 / /data rw,nosuid,noatime - xfs /dev/loop0 rw,attr2,inode64,logbufs=8,logbsize=32k,noquota
41 40 0:40 / /data/with\040blank rw - tmpfs tmpfs rw,seclabel
broken line
"""


class FakeHost(System):
    """A host of files whose write-back sysctls behave as the kernel's do."""

    def __init__(self, root, dirty=20, background=10):
        super().__init__(root, run=lambda argv: "")
        self.log = []
        for knob in KNOBS:
            self._put(sysctls.sysctl_path(knob.name), knob.kernel_default)
        self._put("/proc/sys/vm/dirty_ratio", dirty)
        self._put("/proc/sys/vm/dirty_background_ratio", background)
        self._put("/proc/vmstat", "nr_dirty_threshold 209715\nnr_dirty_background_threshold 104857")
        self._put("/proc/meminfo", "MemAvailable: 4194304 kB")
        self._put("/proc/sys/kernel/random/boot_id", "boot-1")

    def _put(self, path, value):
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(str(value))

    def write(self, absolute, text):
        self.log.append((absolute.rpartition("/")[2], int(text)))
        super().write(absolute, text)
        counterpart = (
            absolute.replace("ratio", "bytes")
            if "ratio" in absolute
            else absolute.replace("bytes", "ratio")
        )
        self._put(absolute, text)
        if counterpart != absolute:
            self._put(counterpart, 0)


def test_the_journal_keeps_a_change_until_it_is_reverted(tmp_path):
    journal = Journal(tmp_path / "j", "boot-1")
    first = journal.record({"kind": "a"})
    second = journal.record({"kind": "b"})
    assert [entry.change["kind"] for entry in journal.pending()] == ["b", "a"]
    journal.mark_undone(second)
    assert [entry.sequence for entry in Journal(tmp_path / "j", "boot-1").pending()] == [first]
    journal.mark_undone(first)
    assert not (tmp_path / "j").exists()


@pytest.mark.parametrize("cut", range(1, 60))
def test_an_incomplete_last_line_is_a_change_that_never_began(tmp_path, cut):
    journal = Journal(tmp_path / "j", "boot-1")
    journal.record({"kind": "a"})
    whole = (tmp_path / "j").read_bytes()
    journal.record({"kind": "b"})
    (tmp_path / "j").write_bytes((tmp_path / "j").read_bytes()[: len(whole) + cut])
    assert [entry.change["kind"] for entry in journal.pending()] == ["a"]
    journal.record({"kind": "c"})
    assert [entry.change["kind"] for entry in journal.pending()] == ["c", "a"]


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "j").write_text('{"undone": 1}\nnonsense\n')
    with pytest.raises(JournalError, match="line 2"):
        Journal(tmp_path / "j", "boot").pending()


def test_a_journal_of_another_version_is_not_guessed_at(tmp_path):
    (tmp_path / "j").write_text('{"format": "writewise-journal", "version": 2}\n')
    with pytest.raises(JournalError, match=r"another version wrote the journal .*: 2"):
        Journal(tmp_path / "j", "boot").pending()


def test_a_journal_that_is_a_symlink_is_not_followed(tmp_path):
    (tmp_path / "target").write_text("")
    (tmp_path / "j").symlink_to(tmp_path / "target")
    with pytest.raises(JournalError):
        Journal(tmp_path / "j", "boot").record({"kind": "a"})


def test_a_state_directory_that_others_can_write_is_refused(tmp_path):
    (tmp_path / "state").mkdir(mode=0o777)
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(JournalError, match="trusted"):
        private_directory(tmp_path / "state")


def test_a_state_directory_below_one_that_others_can_write_is_refused(tmp_path):
    shared = tmp_path / "shared"
    (shared / "state").mkdir(parents=True, mode=0o700)
    shared.chmod(0o777)
    with pytest.raises(JournalError, match=f"others can write to {shared}"):
        private_directory(shared / "state")
    shared.chmod(0o755)
    assert private_directory(shared / "state") == shared / "state"


def test_a_state_directory_is_not_found_through_a_symlink_of_others(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(shared / "link/state"))
    assert state_directory() == tmp_path / "real/state", "as the mount table names it"
    shared.chmod(0o1777)
    with pytest.raises(UntrustedError, match="leads through the symlink"):
        state_directory()


def test_the_holder_is_found_also_behind_a_long_purpose(tmp_path):
    purpose = "govern of " + ", ".join(f"/srv/vöüme{number}" for number in range(100))
    system = System()
    system.sleep = lambda seconds: None
    with (
        exclusive_lock(tmp_path / "lock", purpose),
        pytest.raises(LockedError, match=f"govern of /srv/.*, process {os.getpid()}$"),
        exclusive_lock(tmp_path / "lock", "another", system),
    ):
        pytest.fail("it was taken twice")


def test_a_second_holder_of_the_lock_learns_who_has_it(tmp_path):
    with (
        exclusive_lock(tmp_path / "lock", "sweep of /data"),
        pytest.raises(LockedError, match="sweep of /data"),
        exclusive_lock(tmp_path / "lock", "another"),
    ):
        raise AssertionError("unreachable")


@pytest.mark.parametrize(
    ("state", "flags", "pending", "is_running"),
    [
        ("S", 0x400000, 0, True),
        ("D", 0x400000, 1 << (signal.SIGTERM - 1), True),
        ("D", 0x400000, 1 << (signal.SIGKILL - 1), False),
        ("R", 0x400004, 0, False),
        ("Z", 0x400004, 0, False),
    ],
)
def test_a_process_that_was_killed_does_not_count_as_running(
    state, flags, pending, is_running, tmp_path
):
    folder = tmp_path / "proc/7"
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"7 (a (b) c) {state} 1 7 7 0 -1 {flags} 0\n")
    (folder / "status").write_text(f"Name:\ta\nSigPnd:\t{pending:016x}\nShdPnd:\t{0:016x}\n")
    assert System(tmp_path).is_running(7) is is_running


def test_every_kind_of_change_is_read_back_from_the_journal():
    originals = WritebackOriginals({"vm.dirty_ratio": 20})
    data = json.loads(json.dumps(changes.to_json(originals)))
    assert changes.from_json(data) == originals
    assert len({kind.kind for kind in changes.KINDS}) == len(changes.KINDS)
    with pytest.raises(HostError, match="kind 'new thing'"):
        changes.from_json({"kind": "new thing"})


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "writeback-sysctls", "values": None},
        {"kind": "writeback-sysctls", "values": [1]},
        {"kind": "writeback-sysctls", "values": {"vm.dirty_ratio": "20"}},
        {"kind": "new-path", "path": None},
        {"kind": "mount-options", "target": "/", "source": "a", "fstype": "b", "options": [1]},
        {"kind": "mount-options", "target": "/", "source": "a", "fstype": "b", "options": 1},
    ],
    ids=str,
)
def test_values_of_another_type_in_the_journal_are_damage(change):
    with pytest.raises(HostError, match="the journal is damaged"):
        changes.from_json(change)


def test_a_journal_that_is_a_directory_is_reported(tmp_path):
    (tmp_path / "sweep.journal").mkdir()
    with pytest.raises(JournalError, match="cannot read the journal"):
        Journal(tmp_path / "sweep.journal", "boot").pending()


def test_a_change_recorded_before_a_field_was_added_can_be_reverted():
    old = {"kind": "mount-options", "target": "/", "source": "a", "fstype": "b", "options": ["rw"]}
    change = changes.from_json(old)
    assert isinstance(change, changes.MountOriginal) and change.uuid == ""


def test_deleting_a_path_does_not_follow_a_symlink(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    NewPath(str(tmp_path / "link")).undo(System())
    assert (tmp_path / "precious" / "file").exists()
    assert not (tmp_path / "link").is_symlink()


def test_a_path_that_is_gone_from_memory_alone_stays_in_the_journal(tmp_path, monkeypatch):
    """A device that fails may have lost the deletion: the folder comes back with it."""

    def fail(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(changes, "sync_writable_directory", fail)
    for folder in (tmp_path / "gone", tmp_path / "there"):
        folder.with_name("there").mkdir(exist_ok=True)
        with pytest.raises(HostError, match="Input/output error"):
            NewPath(str(folder), mounted_on="/").undo(System())


def test_a_read_only_file_system_does_not_confirm_a_deletion(tmp_path, monkeypatch):
    """ext4 lets fsync succeed when its device has failed."""

    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "removexattr", refuse)
    with pytest.raises(HostError, match="Read-only file system"):
        NewPath(str(tmp_path / "gone"), mounted_on="/").undo(System())
    monkeypatch.undo()
    NewPath(str(tmp_path / "gone"), mounted_on="/").undo(System())


def test_the_mount_table_is_read_with_its_escapes():
    root, data, blank = parse_mountinfo(TABLE)
    assert blank.target == "/data/with blank"
    assert blank.all_options == ("rw",)
    assert mount_of((root, data, blank), "/data/with blank/x") == blank
    assert mount_of((root, data, blank), "/database") == root
    with pytest.raises(UsageError, match="has no mount for /x"):
        mount_of((data,), "/x")


@given(st.text(max_size=200))
def test_any_text_is_a_mount_table(text):
    assert all(mount.target for mount in parse_mountinfo(text) if mount.target)


def test_below_goes_by_whole_names():
    assert is_below("/data/x", "/data") and is_below("/x", "/") and is_below("/data", "/data")
    assert not is_below("/database", "/data")


def test_policy_options_stay_and_tunable_ones_are_replaced():
    mount = parse_mountinfo(TABLE)[1]
    wanted = wanted_options("xfs", mount.all_options, ("logbsize=256k",))
    assert wanted == ("rw", "nosuid", "noquota", "logbsize=256k")


def test_removing_an_unknown_option_needs_a_fresh_mount():
    original = parse_mountinfo(TABLE)[1]
    changed = parse_mountinfo(TABLE.replace("noquota", "noquota,largeio"))[1]
    assert wanted_options("xfs", original.all_options, ()) == ("rw", "nosuid", "noquota")
    assert needs_fresh_mount(changed, (), original.all_options)
    assert not needs_fresh_mount(original, (), original.all_options)


@pytest.mark.parametrize(
    ("words", "fresh"),
    [(("noatime",), False), ((), False), (("logbsize=256k",), True), (("discard",), False)],
)
def test_some_changes_need_a_fresh_mount(words, fresh):
    assert needs_fresh_mount(parse_mountinfo(TABLE)[1], words) is fresh


@pytest.mark.parametrize(
    "text",
    ["bind", "remount,noatime", "a b", "-o", "noatime\n", "loop=/x", "suid", "x-a.b", "helper=x"],
)
def test_invalid_mount_options_are_refused(text):
    with pytest.raises(HostError):
        words_of(text)


@pytest.mark.parametrize(
    ("wanted", "order"),
    [
        (
            {"vm.dirty_background_ratio": 50, "vm.dirty_ratio": 80},
            ["dirty_ratio", "dirty_background_ratio"],
        ),
        (
            {"vm.dirty_ratio": 8, "vm.dirty_background_ratio": 4},
            ["dirty_background_ratio", "dirty_ratio"],
        ),
        (
            {"vm.dirty_bytes": 2**33, "vm.dirty_background_bytes": 2**31},
            ["dirty_bytes", "dirty_background_bytes"],
        ),
        (
            {"vm.dirty_bytes": 2**25, "vm.dirty_background_bytes": 2**24},
            ["dirty_background_bytes", "dirty_bytes"],
        ),
        ({"vm.dirty_ratio": 20}, []),
    ],
)
def test_background_stays_below_dirty_at_every_step(tmp_path, wanted, order):
    host = FakeHost(tmp_path)
    sysctls.write_writeback(host, wanted)
    assert [name for name, _ in host.log] == order


def test_only_the_effective_sysctl_of_a_pair_is_kept(tmp_path):
    host = FakeHost(tmp_path)
    host.write("/proc/sys/vm/dirty_bytes", str(2**30))
    originals = sysctls.read_writeback(host)
    assert "vm.dirty_ratio" not in originals
    assert originals["vm.dirty_bytes"] == 2**30
    sysctls.write_writeback(host, {"vm.dirty_ratio": 40, "vm.dirty_background_ratio": 5})
    sysctls.write_writeback(host, originals)
    assert sysctls.read_writeback(host) == originals


def test_a_sysctl_that_a_setting_does_not_name_returns_to_its_original(tmp_path):
    system = FakeHost(tmp_path)
    before = sysctls.read_writeback(system)
    host = Host(tmp_path / "state", "sweep", system)
    host.replace_writeback({"vm.dirty_expire_centisecs": 500, "vm.dirty_ratio": 40})
    host.replace_writeback({"vm.dirty_bytes": 2**30, "vm.dirty_background_bytes": 2**28})
    others = {name: value for name, value in before.items() if not name.endswith("_ratio")}
    in_bytes = {"vm.dirty_bytes": 2**30, "vm.dirty_background_bytes": 2**28}
    assert sysctls.read_writeback(system) == {**in_bytes, **others}
    host.replace_writeback({})
    assert sysctls.read_writeback(system) == before
    host.replace_writeback({"vm.dirty_ratio": 40})
    assert host.restore() and sysctls.read_writeback(system) == before


def test_a_rollback_skips_a_sysctl_that_the_kernel_lacks(tmp_path):
    """A journal of an earlier version, or of an earlier kernel, does not name it either."""
    system = FakeHost(tmp_path / "host")
    host = Host(tmp_path / "state", "sweep", system)
    host.set_writeback({"vm.dirty_ratio": 40})
    system.path("/proc/sys/vm/dirty_expire_centisecs").unlink()
    with pytest.raises(HostError, match="dirty_expire_centisecs"):
        host.restore()
    assert sysctls.read_writeback(system)["vm.dirty_ratio"] == 20

    system = FakeHost(tmp_path / "older")
    system.path("/proc/sys/vm/dirty_expire_centisecs").unlink()
    host = Host(tmp_path / "older-state", "sweep", system)
    host.set_writeback({"vm.dirty_ratio": 40})
    assert host.restore()
    assert sysctls.read_writeback(system)["vm.dirty_ratio"] == 20


def test_a_background_threshold_of_0_is_restored(tmp_path):
    """The kernel refuses 0 for dirty_background_bytes, and takes it for the ratio."""

    class Refusing(FakeHost):
        def write(self, absolute, text):
            if absolute.endswith("_bytes") and text == "0":
                raise HostError("Invalid argument")
            super().write(absolute, text)

    host = Refusing(tmp_path, background=0)
    originals = sysctls.read_writeback(host)
    assert "vm.dirty_background_bytes" not in originals
    sysctls.write_writeback(host, {"vm.dirty_ratio": 40, "vm.dirty_background_bytes": 2**25})
    sysctls.write_writeback(host, originals)
    assert sysctls.read_writeback(host) == originals


def test_a_value_that_fails_does_not_block_the_restore_of_others(tmp_path):
    host = FakeHost(tmp_path, dirty=40)
    with pytest.raises(HostError):
        sysctls.write_writeback(host, {"vm.dirty_missing": 1, "vm.dirty_ratio": 20})
    assert sysctls.read_writeback(host)["vm.dirty_ratio"] == 20


def test_a_value_that_the_kernel_does_not_keep_is_an_error(tmp_path):
    host = FakeHost(tmp_path)
    host.write = lambda absolute, text: None
    with pytest.raises(HostError, match="set to 40 but reads back as 20"):
        sysctls.write_sysctl(host, "vm.dirty_ratio", 40)


def test_dirtyable_memory_is_the_kernels_own_figure(tmp_path):
    host = FakeHost(tmp_path)
    assert sysctls.dirtyable_bytes(host) == 209715 * 4096 * 5
    sysctls.write_writeback(host, {"vm.dirty_bytes": 2**25, "vm.dirty_background_bytes": 2**24})
    assert sysctls.dirtyable_bytes(host) == 4194304 * 1024
