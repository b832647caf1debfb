# SPDX-License-Identifier: Apache-2.0
"""Apply and rollback on a host of files; a program killed at any step leaves it whole."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from sysctl.advice.advise import advise
from sysctl.apply import persistence
from sysctl.apply.applying import Options, check, perform
from sysctl.apply.compliance import check_compliance, wanted_by_applied
from sysctl.apply.history import read_history
from sysctl.apply.plan import plan_of
from sysctl.apply.sysctl_files import Assignment
from sysctl.change.recommendation import DiskAdvice, KnobAdvice, MountAdvice
from sysctl.host.applied_host import AppliedHost, applying
from sysctl.host.host import Host, state_directory
from sysctl.host.lock import LockedError, exclusive_lock, holder_of
from sysctl.host.system import HostError
from tests.unit.applied_hosts import FilesHost, killed_at, killed_in
from tests.unit.changes import change_in
from tests.unit.studies import Study, ratio

SYSCTLS = change_in(advise(Study().tried(ratio(60), 3.6).results))
CHANGE = replace(
    SYSCTLS,
    disk=DiskAdvice("/data", "/dev/loop0", (KnobAdvice("queue/scheduler", "none", "", "why"),)),
    mount=MountAdvice("/data", "/dev/loop0", "ext4", ("noatime",), (), ("nosuid",), "why"),
)
ALL = Options(persist=True, mounts=True)
FILE = "sysctl.d/90-writewise.conf"


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return FilesHost(tmp_path / "root")


def apply(system, change=CHANGE, options=ALL):
    with applying("test", system) as host:
        plan = plan_of(system, change)
        check(system, plan, options)
        return perform(host, plan, options)


def start(system):
    """Do what every later sweep or apply does first."""
    with Host.exclusive("sweep", "a later start", system) as host:
        return host.recovered


def rollback(system):
    host = AppliedHost(state_directory(), system)
    return host.restore(), list(host.left)


def journal():
    return state_directory() / "applied.journal"


def test_everything_is_applied_and_restored(system):
    before = system.state()
    apply(system)
    after = system.state()
    assert (after["dirty_ratio"], after["dirty_background_ratio"]) == (60, 5)
    assert after["scheduler"].startswith("[none]") and after["nr_requests"] == "64"
    assert "noatime" in after["mounts"][0].options
    assert "vm.dirty_ratio = 60\n" in after["files"][FILE]
    assert start(system) == [] and system.state() == after
    restored, left = rollback(system)
    assert system.state() == before and not left and not journal().exists()
    assert restored == [
        "/data mounted with rw,nosuid,relatime",
        "7:0: queue/scheduler = mq-deadline, queue/nr_requests = 256",
        "no /etc/sysctl.d/90-writewise.conf",
        "vm.dirty_ratio = 20, vm.dirty_background_ratio = 10",
    ]
    assert system.invalid == []


def test_an_apply_killed_at_any_step_is_reverted_or_complete(tmp_path, monkeypatch):
    outcomes = []
    for step in range(1000):  # a deeper directory takes more steps
        monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / f"state-{step}"))
        system = FilesHost(tmp_path / str(step))
        before = system.state()
        with killed_at(step, system) as made:
            apply(system)
        start(system)
        outcomes.append(system.state() == before)
        if not outcomes[-1]:
            assert "vm.dirty_ratio = 60\n" in system.files()[FILE]
            assert len(system.files()) == 1 and system.values()["dirty_ratio"] == 60
        rollback(system)
        assert system.state() == before and not journal().exists(), step
        assert system.invalid == []
        if len(made) <= step:
            break
    assert len(outcomes) > 30 and outcomes[0] and not outcomes[-1]
    assert outcomes == sorted(outcomes, reverse=True)  # once complete, it stays complete


@pytest.mark.parametrize("boots", [False, True])
def test_a_rollback_killed_at_any_step_is_finished_by_the_next(tmp_path, monkeypatch, boots):
    for step in range(1000):  # a deeper directory takes more steps
        monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / f"state-{step}"))
        system = FilesHost(tmp_path / str(step))
        before = system.state()
        apply(system, SYSCTLS, Options(persist=True)) if boots else apply(system)
        system = system.reboot() if boots else system
        with killed_at(step, system) as made:
            rollback(system)
        _, left = rollback(system)
        assert system.state() == before and not left and not journal().exists(), step
        if len(made) <= step:
            break
    assert step > 15


def test_leftovers_of_a_killed_apply_are_reported_before_they_count_as_current(system):
    killed(system, "keep")
    assert system.values()["dirty_ratio"] == 15
    found = read_history(system).temporary
    assert [sentence.partition(": ")[2] for sentence in found] == [
        "/etc/sysctl.d/90-writewise.conf",
        "vm.dirty_ratio = 15, vm.dirty_background_ratio = 5",
    ]
    with applying("somebody", system):
        assert read_history(system).temporary[0].endswith("sets values temporarily")
    assert read_history(system).temporary == ()


def test_a_killed_second_apply_leaves_the_first(tmp_path, monkeypatch):
    second, outcomes = change_in(advise(Study().tried(ratio(80), 3.6).results)), []
    for step in range(1000):  # a deeper directory takes more steps
        monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / f"state-{step}"))
        system = FilesHost(tmp_path / str(step))
        before = system.state()
        apply(system, SYSCTLS, Options())
        with killed_at(step, system) as made:
            apply(system, second, Options())
        start(system)
        outcomes.append(system.values()["dirty_ratio"])
        rollback(system)
        assert system.state() == before
        if len(made) <= step:
            break
    assert len(outcomes) > 8 and set(outcomes) == {60, 80} and outcomes == sorted(outcomes)


def test_values_changed_since_are_reported_and_left(system):
    apply(system, SYSCTLS, Options())
    system.write("/proc/sys/vm/dirty_ratio", "33")
    restored, left = rollback(system)
    assert restored == ["vm.dirty_background_ratio = 10"]
    assert system.values()["dirty_ratio"] == 33
    assert left == [
        "vm.dirty_ratio = 33 is neither the applied value (vm.dirty_ratio = 60) nor the original "
        "(vm.dirty_ratio = 20): it was changed since and is not restored"
    ]
    assert not journal().exists()


def test_a_value_restored_by_hand_is_not_a_change_since(system):
    before = system.state()
    apply(system, SYSCTLS, Options())
    for name, value in (("dirty_background_ratio", 10), ("dirty_ratio", 20)):
        system.write(f"/proc/sys/vm/{name}", str(value))
    assert rollback(system) == ([], []) and system.state() == before


def test_a_file_that_was_edited_since_is_left(system):
    apply(system, SYSCTLS, Options(persist=True))
    path = system.root / "etc" / FILE
    path.write_text(path.read_text() + "vm.swappiness = 1\n")
    _, left = rollback(system)
    assert left == ["/etc/sysctl.d/90-writewise.conf was edited since and is not restored"]
    assert path.exists() and system.values()["dirty_ratio"] == 20


def test_a_mount_and_a_knob_changed_since_are_left(system):
    apply(system)
    system.write("/sys/block/7:0/queue/scheduler", "mq-deadline")
    system.write("/sys/block/7:0/queue/scheduler", "none")
    system.put("/sys/block/7:0/queue/scheduler", "none mq-deadline [bfq]")
    system.put("/proc/self/mountinfo", "40 22 7:0 / /data ro,strictatime - ext4 /dev/loop0 rw\n")
    restored, left = rollback(system)
    assert any("queue/scheduler = bfq is neither" in sentence for sentence in left)
    assert any("/data was mounted with other options since" in sentence for sentence in left)
    assert system.read("/sys/block/7:0/queue/scheduler").endswith("[bfq]")
    assert "vm.dirty_ratio = 20, vm.dirty_background_ratio = 10" in restored


def test_a_boot_resets_sysctls_and_their_journal_no_longer_counts(system):
    apply(system, SYSCTLS, Options())
    booted = system.reboot()
    booted.write("/proc/sys/vm/dirty_ratio", "60")  # by somebody else this time
    assert rollback(booted) == ([], []) and booted.values()["dirty_ratio"] == 60


def test_a_setting_in_a_file_is_reverted_after_a_boot_too(system):
    before = system.state()
    apply(system, SYSCTLS, Options(persist=True))
    booted = system.reboot()
    assert booted.values()["dirty_ratio"] == 60 and start(booted) == []
    _, left = rollback(booted)
    assert booted.state() == before and not left


HIGH, LOW = SYSCTLS, change_in(advise(Study().tried(ratio(15), 3.6).results))
STEPS = {
    "apply": lambda system: apply(system, HIGH, Options()),
    "persist": lambda system: apply(system, HIGH, Options(persist=True)),
    "apply low": lambda system: apply(system, LOW, Options()),
    "persist low": lambda system: apply(system, LOW, Options(persist=True)),
    "killed before the file": lambda system: killed(system, "write_file"),
    "killed after it": lambda system: killed(system, "keep"),
    "boot": FilesHost.reboot,
}


def killed(system, method):
    with killed_in(AppliedHost, method, system):
        apply(system, LOW, Options(persist=True))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_rollback_restores_the_originals_after_any_actions_and_boots(
    tmp_path, monkeypatch, length
):
    """--dry-run announces a change exactly if there is one, and no state is invalid."""
    for number, names in enumerate(itertools.product(STEPS, repeat=length)):
        monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / f"state-{number}"))
        system = FilesHost(tmp_path / str(number))
        before = system.state()
        for name in names:
            system = STEPS[name](system) if name == "boot" else (STEPS[name](system), system)[1]
        start(system)
        promised = AppliedHost(state_directory(), system).pending()
        restored, left = rollback(system)
        assert system.state() == before, names
        assert (bool(restored), left, system.invalid) == (bool(promised), [], []), names
        assert not journal().exists()


def test_after_a_boot_the_values_of_the_file_are_in_force(system):
    apply(system, HIGH, Options(persist=True))
    apply(system, LOW, Options())
    booted = system.reboot()
    wanted = wanted_by_applied(booted, AppliedHost(state_directory(), booted).applied())
    assert wanted.sysctls == HIGH.sysctl_values
    assert all(each.is_compliant for each in check_compliance(booted, wanted))


@pytest.mark.parametrize(
    ("change", "name", "value"), [(LOW, "dirty_ratio", 9), (HIGH, "dirty_background_ratio", 50)]
)
def test_a_pair_with_one_changed_value_is_not_restored_to_an_invalid_state(
    system, change, name, value
):
    apply(system, change, Options())
    system.write(f"/proc/sys/vm/{name}", str(value))
    after = system.values()
    restored, left = rollback(system)
    assert (restored, system.values(), system.invalid) == ([], after, [])
    assert len(left) == 2 and "it was changed since" in left[0]
    assert "is not restored: with that" in left[1]


def test_a_value_that_the_kernel_refuses_reverts_everything(system):
    before = system.state()
    system.path("/sys/block/7:0/queue/scheduler").write_text("[mq-deadline]\n")
    with pytest.raises(HostError, match="offers the schedulers mq-deadline, not none"):
        apply(system)
    system.put("/sys/block/7:0/queue/scheduler", "[mq-deadline] none")
    assert system.state() == before and not journal().exists()


def test_ctrl_c_between_two_values_reverts_everything(system, monkeypatch):
    before, write = system.state(), system.write

    def interrupted(absolute, text):
        write(absolute, text)
        monkeypatch.setattr(system, "write", write)
        raise KeyboardInterrupt

    monkeypatch.setattr(system, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apply(system)
    assert system.state() == before and not journal().exists()


def test_a_file_of_somebody_else_is_not_replaced(system):
    system.put("/etc/sysctl.d/90-writewise.conf", "# mine")
    before = system.state()
    with pytest.raises(HostError, match="was not written by Writewise"):
        apply(system)
    assert system.state() == before and system.commands == []


def test_a_link_in_the_place_of_the_file_is_not_followed(system):
    system.put("/precious", "x")
    (system.root / "etc" / FILE).symlink_to(system.root / "precious")
    with pytest.raises(HostError):
        apply(system)
    assert system.path("/precious").read_text() == "x\n"


def test_no_file_is_written_to_a_directory_that_others_can_write(system):
    (system.root / "etc/sysctl.d").chmod(0o777)
    with pytest.raises(HostError, match="others can write to"):
        apply(system)
    assert system.values()["dirty_ratio"] == 20


def test_the_file_gets_a_name_that_wins_if_possible(system):
    assert persistence.choose_path(system, CHANGE) == persistence.PATHS[0]
    system.put("/etc/sysctl.d/99-sysctl.conf", "vm.dirty_ratio = 10")
    assert persistence.choose_path(system, CHANGE) == persistence.PATHS[1]
    system.put("/etc/sysctl.d/99-zz.conf", "vm.dirty_bytes = 1073741824")
    system.put("/etc/sysctl.conf", "vm.dirty_background_ratio=10")
    assert persistence.choose_path(system, CHANGE) == persistence.PATHS[1]
    found = [str(each) for each in persistence.overriding(system, CHANGE, persistence.PATHS[1])]
    assert found == [
        "vm.dirty_bytes = 1073741824 in /etc/sysctl.d/99-zz.conf, line 1",
        "vm.dirty_background_ratio = 10 in /etc/sysctl.conf, line 1",
    ]
    apply(system, SYSCTLS, Options(persist=True))
    text = system.files()["sysctl.d/99-writewise.conf"]
    assert text.startswith(persistence.OURS) and "90-writewise.conf" not in text


def test_the_plan_has_the_bytes_and_other_files_that_set_the_sysctl(system):
    system.put("/etc/sysctl.d/99-zz.conf", "vm.dirty_ratio = 30")
    plan = plan_of(system, CHANGE)
    dirty, background = plan.sysctls
    dirtyable = 209715 * 4096 * 5
    assert (dirty.present_bytes, dirty.new_bytes) == (dirtyable * 20 // 100, dirtyable * 60 // 100)
    assert background.new_bytes == dirtyable * 5 // 100
    [other] = dirty.others
    assert isinstance(other, Assignment) and other.path == "/etc/sysctl.d/99-zz.conf"
    assert plan.mount.fstab.startswith("nosuid,noatime (fstab has no single line for /")
    target = plan.mount.target
    system.put("/etc/fstab", f"# mine\nUUID=1 {target} xfs nosuid,relatime,nofail 0 2\n")
    line = f"UUID=1 {target} xfs nosuid,nofail,noatime 0 2"
    assert plan_of(system, CHANGE).mount.fstab == line
    assert not plan.mount.takes_fresh_mount
    assert all(each.is_change for each in plan.sysctls)
    apply(system)
    after = plan_of(system, CHANGE)
    assert not any(each.is_change for each in (*after.sysctls, *after.knobs))
    assert not after.mount.is_change


def test_thresholds_that_make_no_sense_on_this_host_are_refused(system):
    """A background threshold of that many bytes exceeds the dirty ratio of a small host."""
    advice = replace(SYSCTLS.sysctls[1], name="vm.dirty_background_bytes", value=2**40)
    change = replace(SYSCTLS, sysctls=(SYSCTLS.sysctls[0], advice))
    with pytest.raises(HostError, match="not for this host: background must be below dirty"):
        plan_of(system, change)


NOWHERE = replace(
    CHANGE,
    disk=replace(CHANGE.disk, target="/elsewhere"),
    mount=replace(CHANGE.mount, target="/elsewhere"),
)


def test_sysctls_are_applied_without_the_mount_and_its_disk(system):
    nothing = "nothing is mounted on /elsewhere, the mount point of the recommendation"
    assert plan_of(system, NOWHERE).left_out == (
        f"queue/scheduler: {nothing}",
        f"mount options noatime: {nothing}",
    )
    before = system.state()
    apply(system, NOWHERE)
    after = system.state()
    assert after["dirty_ratio"] == 60 and after["mounts"] == before["mounts"]
    assert after["scheduler"] == before["scheduler"]


def test_options_of_another_file_system_are_left_out(system):
    change = replace(SYSCTLS, mount=replace(CHANGE.mount, fstype="xfs"))
    plan = plan_of(system, change)
    assert plan.left_out == ("mount options noatime: /data has ext4, but the options are for xfs",)
    assert plan.mount is None


def test_a_knob_that_the_disk_lacks_is_skipped_and_the_others_are_set(system):
    wbt = KnobAdvice("queue/wbt_lat_usec", "0", "", "why")
    change = replace(CHANGE, disk=replace(CHANGE.disk, knobs=(*CHANGE.disk.knobs, wbt)))
    assert plan_of(system, change).left_out == (
        "queue/wbt_lat_usec: this kernel does not have this knob for this disk",
    )
    apply(system, change)
    assert system.state()["scheduler"].startswith("[none]")


@pytest.mark.parametrize("change", [NOWHERE, replace(NOWHERE, disk=None)])
def test_nothing_is_applied_if_every_change_is_skipped(system, change):
    """The sysctls were already in force, so nothing was measured without the rest."""
    change = replace(change, originals=change.sysctl_values)
    before = system.state()
    with pytest.raises(HostError, match=r"applies to this host: .*mounted on /elsewhere"):
        apply(system, change, Options())
    assert system.state() == before


def test_options_that_need_a_fresh_mount_are_refused_before_any_change(system):
    before = system.state()
    change = replace(CHANGE, mount=replace(CHANGE.mount, value=("data=journal",)))
    with pytest.raises(HostError, match="a remount of /data cannot set"):
        apply(system, change)
    assert system.state() == before


def test_a_sweep_takes_an_applied_value_as_current(system):
    apply(system, SYSCTLS, Options())
    with Host.exclusive("sweep", "a sweep", system) as host:
        host.replace_writeback({"vm.dirty_ratio": 80})
        assert system.values()["dirty_background_ratio"] == 5
    assert system.values()["dirty_ratio"] == 60


def test_apply_and_sweep_exclude_each_other(system, tmp_path):
    start(system)
    for name in ("stat", "status"):  # the holder is running: it is this process
        system.put(f"/proc/{os.getpid()}/{name}", Path(f"/proc/self/{name}").read_text())
    with (
        exclusive_lock(tmp_path / "state/sweep.lock", "sweep of /data"),
        pytest.raises(LockedError, match="sweep of /data"),
    ):
        assert holder_of(tmp_path / "state/sweep.lock").startswith("sweep of /data, process")
        apply(system)
    assert holder_of(tmp_path / "state/sweep.lock") is None


def test_the_journal_says_what_kind_of_file_it_is(system):
    apply(system, SYSCTLS, Options())
    lines = [json.loads(line) for line in journal().read_text().splitlines()]
    assert lines[0] == {"format": "writewise-journal", "version": 1}
    assert lines[1]["boot_id"] == "boot-1" and lines[1]["change"]["originals"]
    assert lines[-1] == {"kept": 1}
    assert journal().stat().st_mode & 0o777 == 0o600
