# SPDX-License-Identifier: Apache-2.0
"""Settings that several runs hold: the last restores, whichever of them is killed, and when."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
from unittest import mock

import pytest

from contracts.shared.errors import WritewiseError
from sysctl.apply.history import read_history
from sysctl.apply.state import read_state
from sysctl.host import holders
from sysctl.host.applied_host import applying
from sysctl.host.holding import Hold
from sysctl.host.host import WRITER, Host, state_directory
from sysctl.host.lock import LockedError, exclusive_lock, holder_of
from sysctl.host.system import HostError
from tests.unit.applied_hosts import FilesHost, killed_at

WANTED = {"vm.dirty_ratio": 80, "vm.dirty_background_ratio": 15}
SETTINGS = {name: str(value) for name, value in WANTED.items()}
OTHERS = {"vm.dirty_ratio": "70"}


class ProcessesHost(FilesHost):
    """A host of files with processes that a test starts and kills."""

    def start(self, pid, ticks=1000):
        fields = ["S", "1", *["0"] * 17, str(ticks), *["0"] * 10]
        self.put(f"/proc/{pid}/stat", f"{pid} (a) name) {' '.join(fields)}")
        self.put(f"/proc/{pid}/status", "SigPnd:\t0000000000000000")

    def kill(self, pid):
        self.path(f"/proc/{pid}/stat").unlink(missing_ok=True)

    def ratios(self):
        values = self.values()
        return values["dirty_ratio"], values["dirty_background_ratio"]


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return ProcessesHost(tmp_path / "root")


@contextlib.contextmanager
def process(pid):
    """Let the block's code be that of process `pid`."""
    with mock.patch.object(os, "getpid", lambda: pid):
        yield


def raise_them(host):
    host.apply_sysctls(WANTED)


def joined(system, pid, settings=SETTINGS):
    system.start(pid)
    hold = Hold(settings, f"`job {pid}`", system)
    with process(pid):
        hold.join(raise_them)
    return hold


def leave(hold, pid):
    with process(pid):
        hold.leave()


def killed(hold, system, pid):
    """Kill a holder: the kernel closes its files."""
    os.close(hold.presence)
    system.kill(pid)


def start(system):
    """Do what every later writer does first."""
    with Host.exclusive(WRITER, "a later start", system) as host:
        return list(host.recovered), list(host.left)


def left_files():
    return sorted(path.name for path in state_directory().iterdir() if path.suffix != ".lock")


def test_it_is_in_force_until_it_is_left(system):
    before = system.state()
    hold = joined(system, 11)
    assert system.ratios() == (80, 15) and left_files() == ["run-11.json", "run.journal"]
    leave(hold, 11)
    assert hold.restored == ["vm.dirty_ratio = 20, vm.dirty_background_ratio = 10"]
    assert system.state() == before and left_files() == [] and system.invalid == []
    leave(hold, 11)  # nothing happens


@pytest.mark.parametrize("order", [(11, 12, 13), (13, 12, 11), (12, 11, 13)])
def test_the_last_one_restores(system, order):
    before = system.state()
    holds = {pid: joined(system, pid) for pid in (11, 12, 13)}
    assert [holder.pid for holder in holds[13].others] == [11, 12]
    for pid in order[:-1]:
        leave(holds[pid], pid)
        assert system.ratios() == (80, 15) and holds[pid].restored == ()
        assert order[-1] in {holder.pid for holder in holds[pid].remaining}
    leave(holds[order[-1]], order[-1])
    assert system.state() == before and left_files() == []


def test_other_settings_are_refused_and_the_holder_is_named(system):
    hold = joined(system, 11)
    with pytest.raises(LockedError) as refused:
        joined(system, 12, OTHERS)
    message = refused.value.message
    assert "run of `job 11`, process 11 since 2" in message and "vm.dirty_ratio = 80" in message
    assert system.ratios() == (80, 15) and left_files() == ["run-11.json", "run.journal"]
    leave(hold, 11)
    leave(joined(system, 12, OTHERS), 12)


def test_other_writers_are_refused_and_the_holder_is_named(system):
    hold = joined(system, 11)
    with pytest.raises(LockedError, match=r"`job 11`, process 11 .*with vm.dirty_ratio = 80"):
        start(system)
    with pytest.raises(LockedError, match="process 11"), applying("apply", system):
        raise AssertionError("unreachable")
    with pytest.raises(LockedError, match="process 11"), Host.lasting(WRITER, "rollback", system):
        raise AssertionError("unreachable")
    assert system.ratios() == (80, 15)
    leave(hold, 11)
    assert start(system) == ([], [])


def test_it_is_refused_while_a_sweep_runs(system):
    before = system.state()
    with (
        Host.exclusive(WRITER, "sweep of /data", system),
        pytest.raises(LockedError, match="sweep of /data, process"),
        mock.patch.object(system, "sleep", lambda _: None),
        mock.patch.object(system, "is_running", lambda _: True),
    ):
        joined(system, 11)
    assert system.state() == before and left_files() == []


def test_those_who_join_wait_for_each_other(system):
    """The journal's fsync can take seconds on a busy disk."""
    path, waited = state_directory() / "sweep.lock", []
    path.parent.mkdir(mode=0o700)
    taken = exclusive_lock(path, "run of `job 10`", system)
    taken.__enter__()

    def sleep(seconds):
        waited.append(seconds)
        if sum(waited) > 5:
            taken.__exit__(None, None, None)

    with (
        mock.patch.object(system, "sleep", sleep),
        mock.patch.object(system, "is_running", lambda _: True),
    ):
        hold = joined(system, 11)
    leave(hold, 11)
    assert sum(waited) > 5 and system.ratios() == (20, 10)


def test_after_a_kill_the_next_writer_restores(system):
    before = system.state()
    killed(joined(system, 11), system, 11)
    assert read_state(system).interrupted == (
        "vm.dirty_ratio = 20, vm.dirty_background_ratio = 10",
    )
    assert "will be reverted first" in read_history(system).temporary[0]
    assert start(system) == (["vm.dirty_ratio = 20, vm.dirty_background_ratio = 10"], [])
    assert system.state() == before and left_files() == []


def test_after_a_kill_the_next_run_restores_first(system):
    killed(joined(system, 11), system, 11)
    hold = joined(system, 12, OTHERS)
    assert hold.recovered == ["vm.dirty_ratio = 20, vm.dirty_background_ratio = 10"]
    assert hold.others == ()
    leave(hold, 12)
    assert system.ratios() == (20, 10) and left_files() == []


def test_with_others_alive_a_killed_one_does_not_matter(system):
    first, second = joined(system, 11), joined(system, 12)
    killed(first, system, 11)
    assert [run.pid for run in read_state(system).runs] == [12]
    assert read_state(system).interrupted == ()
    third = joined(system, 13)
    leave(second, 12)
    assert system.ratios() == (80, 15)
    leave(third, 13)
    assert system.ratios() == (20, 10)
    assert start(system) == ([], []) and left_files() == []


def test_a_process_with_the_pid_of_a_killed_one_is_not_taken_for_it(system):
    killed(joined(system, 11), system, 11)
    system.start(11, ticks=2000)
    start(system)
    assert system.ratios() == (20, 10)


def test_after_a_boot_nothing_is_held(system):
    os.close(joined(system, 11).presence)
    system.put("/proc/sys/vm/dirty_ratio", 30)  # as the boot has set it
    system.put("/proc/sys/kernel/random/boot_id", "boot-2")
    assert read_state(system).runs == ()
    assert start(system) == ([], [])
    assert system.values()["dirty_ratio"] == 30 and left_files() == []


@pytest.mark.parametrize("lost", [b"", b"\0" * 400])
def test_after_a_power_cut_a_holder_without_data_holds_nothing(system, lost):
    """A file system may keep a file's name and lose what was written to it just before."""
    os.close(joined(system, 11).presence)
    (state_directory() / "run-11.json").write_bytes(lost)
    system.put("/proc/sys/vm/dirty_ratio", 20)
    system.put("/proc/sys/vm/dirty_background_ratio", 10)
    system.put("/proc/sys/kernel/random/boot_id", "boot-2")
    assert read_state(system).runs == ()
    leave(joined(system, 12, OTHERS), 12)
    assert system.ratios() == (20, 10) and left_files() == []


def test_what_another_program_has_set_is_left_and_said(system):
    hold = joined(system, 11)
    system.write("/proc/sys/vm/dirty_ratio", "33")
    (sentence,) = hold.changed_since()
    assert sentence.startswith("vm.dirty_ratio = 33 is neither the applied value (vm.dirty_ratio")
    second = joined(system, 12)
    assert second.changed_since() == [sentence]
    leave(second, 12)
    leave(hold, 11)
    assert hold.not_restored == [sentence] and system.ratios() == (33, 10)
    assert hold.restored == ["vm.dirty_background_ratio = 10"]


def test_what_apply_has_set_is_back_after_a_run(system):
    with applying("apply", system) as host:
        host.apply_sysctls({"vm.dirty_ratio": 40})
        host.keep()
    leave(joined(system, 11), 11)
    assert system.ratios() == (40, 10)
    killed(joined(system, 12), system, 12)
    start(system)
    assert system.ratios() == (40, 10)


@pytest.mark.parametrize("settings", [{"vm.dirty_ratio": 80}, WANTED])
def test_originals_that_the_kernel_halves_are_back_after_a_run(system, settings):
    """At rest the background threshold is not below the dirty one: the host is as it was."""
    system.write("/proc/sys/vm/dirty_background_ratio", "40")
    before = system.state()
    system.start(11)
    hold = Hold({name: str(value) for name, value in settings.items()}, "`job`", system)
    with process(11):
        hold.join(lambda host: host.apply_sysctls(settings))
        assert system.ratios()[0] == 80
        hold.leave()
    assert system.state() == before and left_files() == []
    assert list(hold.not_restored) == []


def test_settings_that_cannot_be_set_leave_nothing(system):
    before = system.state()

    def half(host):
        host.apply_sysctls({"vm.dirty_ratio": 80})
        raise HostError("no more")

    system.start(11)
    hold = Hold(SETTINGS, "`job`", system)
    with process(11), pytest.raises(HostError, match="no more"):
        hold.join(half)
    leave(hold, 11)
    assert system.state() == before and left_files() == []


@pytest.mark.parametrize("name", ["run-11.new", "run.journal"])
def test_without_space_nothing_is_changed(system, name):
    before, real = system.state(), os.open

    def full(path, *arguments, **options):
        if str(path).endswith(name) and arguments[0] & os.O_CREAT:
            raise OSError(28, "No space left on device")
        return real(path, *arguments, **options)

    with mock.patch.object(os, "open", full), pytest.raises(WritewiseError, match="No space"):
        joined(system, 11)
    assert system.state() == before and left_files() == []


@pytest.mark.parametrize(
    "text", ["nonsense", "[]", "{}", '{"format": "writewise-run", "version": 2}', "[" * 9000]
)
def test_a_damaged_holder_is_named_and_nobody_changes_anything(system, text):
    hold = joined(system, 11)
    file = state_directory() / "run-12.json"
    file.write_text(text)
    with pytest.raises(HostError, match=r"run-12.json is damaged, or another version wrote it"):
        start(system)
    file.unlink()
    leave(hold, 11)


@pytest.mark.parametrize("field", ["pid", "start_ticks", "boot_id", "command", "settings"])
def test_a_holder_with_a_wrong_type_is_damaged(system, field):
    hold = joined(system, 11)
    file = state_directory() / "run-11.json"
    good = file.read_text()
    file.write_text(json.dumps({**json.loads(good), field: None}))
    with pytest.raises(HostError, match="is damaged"):
        holders.living(state_directory(), system)
    file.write_text(good)
    leave(hold, 11)


def test_a_symlink_in_place_of_a_holder_is_not_followed(system, tmp_path):
    hold = joined(system, 11)
    (tmp_path / "elsewhere").write_text("{}")
    (state_directory() / "run-12.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostError, match="cannot read"):
        start(system)
    (state_directory() / "run-12.json").unlink()
    leave(hold, 11)


def test_a_child_takes_the_place_of_its_parent(system):
    hold = joined(system, 11)
    system.start(12)
    with process(12):
        assert hold.take_over()
    system.kill(11)
    (run,) = read_state(system).runs
    assert (run.pid, run.is_draining, run.command) == (12, True, "`job 11`")
    with pytest.raises(LockedError, match="process 12"):
        start(system)
    leave(hold, 12)
    assert system.ratios() == (20, 10) and left_files() == []


def test_a_child_whose_parent_was_taken_for_dead_holds_nothing(system):
    hold = joined(system, 11)
    system.kill(11)
    start(system)
    system.start(12)
    with process(12):
        assert not hold.take_over()
    leave(hold, 12)
    assert system.ratios() == (20, 10) and left_files() == []


def test_a_parent_restores_what_a_child_that_was_killed_has_taken_over(system):
    hold = joined(system, 11)
    system.start(12)
    taken = copy.copy(hold)
    with process(12):
        assert taken.take_over()
    system.kill(12)  # before it could report to its parent
    leave(hold, 11)
    assert system.ratios() == (20, 10)


def test_draining_is_shown_and_a_full_disk_does_not_matter(system):
    hold = joined(system, 11)
    with process(11):
        hold.drain()
        assert read_state(system).runs[0].is_draining
        with mock.patch.object(holders, "enter", side_effect=HostError("full")):
            hold.drain()
    leave(hold, 11)
    assert left_files() == []


def test_an_upgrade_waits_as_long_as_somebody_holds(system):
    lock = state_directory() / "run.lock"
    first, second = joined(system, 11), joined(system, 12)
    for hold, pid in ((first, 11), (second, 12)):
        with mock.patch("sysctl.host.lock.fcntl.LOCK_SH", 2):  # as `flock` of the scripts asks
            assert "run of `job" in holder_of(lock)
        leave(hold, pid)
    with exclusive_lock(lock, "an upgrade", system):
        pass


def test_a_join_killed_at_any_step_is_reverted_or_complete(tmp_path, monkeypatch):
    for step in range(1000):
        monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / f"state-{step}"))
        system = ProcessesHost(tmp_path / str(step))
        before = system.state()
        with killed_at(step, system) as made:
            joined(system, 11)
        assert system.ratios() in {(20, 10), (80, 10), (80, 15)}
        system.kill(11)
        start(system)
        assert system.state() == before and left_files() == [], step
        if len(made) <= step:
            break
    assert step > 12


@pytest.mark.parametrize("others", [(), (12,)])
def test_a_leave_killed_at_any_step_is_finished_by_the_next(tmp_path, monkeypatch, others):
    for step in range(1000):
        monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / f"state-{step}"))
        system = ProcessesHost(tmp_path / str(step))
        before = system.state()
        hold = joined(system, 11)
        remaining = {pid: joined(system, pid) for pid in others}
        with killed_at(step, system) as made:
            leave(hold, 11)
        system.kill(11)
        for pid, other in remaining.items():
            assert system.ratios() == (80, 15)
            leave(other, pid)
            assert system.ratios() == (20, 10)
        start(system)
        assert system.state() == before and left_files() == [], step
        if len(made) <= step:
            break
    assert step >= 3


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_joins_ends_and_kills_ends_at_the_originals(system, seed):
    """They are in force while anybody lives; after the last one the next writer restores."""
    chance, before = random.Random(seed), system.state()
    alive: dict[int, Hold] = {}
    for pid in range(100, 112):
        alive[pid] = joined(system, pid)
        while alive and chance.random() < 0.55:
            assert system.ratios() == (80, 15)
            gone = chance.choice(list(alive))
            hold = alive.pop(gone)
            if chance.random() < 0.5:
                killed(hold, system, gone)
            else:
                leave(hold, gone)
                assert system.ratios() == ((80, 15) if alive else (20, 10))
    for pid, hold in alive.items():
        killed(hold, system, pid)
    start(system)
    assert system.state() == before and left_files() == [] and system.invalid == []
