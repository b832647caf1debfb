# SPDX-License-Identifier: Apache-2.0
"""Thresholds raised for a burst, on a host of files: journal, restore, kills, other programs."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysctl.host.applied_host import AppliedHost, applying, left_by_a_killed_run
from sysctl.host.host import WRITER, Host, runtime_directory, state_directory
from sysctl.host.lock import LockedError
from sysctl.host.raising_host import ChangedError, RaisingHost, governing
from sysctl.host.system import HostError
from tests.unit.applied_hosts import FilesHost, killed_at

GIB = 2**30
DIRTY = 2 * GIB
BACKGROUNDS = (GIB // 2, GIB, GIB * 3 // 2)
RESTS = (
    {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10},
    {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 40},
    {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 0},
    {"vm.dirty_bytes": GIB, "vm.dirty_background_bytes": GIB // 2},
    {"vm.dirty_bytes": GIB, "vm.dirty_background_ratio": 5},
)


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return FilesHost(tmp_path / "root")


def at_rest(system, values):
    for name, value in values.items():
        system.write("/proc/sys/" + name.replace(".", "/"), str(value))
    system.invalid.clear()
    return system.values()


@pytest.mark.parametrize("rest", RESTS)
def test_the_host_is_as_before_after_a_raise_that_followed_a_burst(system, rest):
    before = at_rest(system, rest)
    with governing("govern of /data", system) as host:
        own = host.thresholds()
        assert own == rest
        host.raise_thresholds(own, DIRTY, BACKGROUNDS)
        for background in (*BACKGROUNDS, *BACKGROUNDS[::-1]):
            host.set_background(background)
            assert host.thresholds() == {
                "vm.dirty_bytes": DIRTY,
                "vm.dirty_background_bytes": background,
            }
        host.set_background(None)
        assert host.lower() == []
        assert system.values() == before
        host.raise_thresholds(own, DIRTY, BACKGROUNDS)
        host.set_background(BACKGROUNDS[1])
    assert system.values() == before
    assert not list(runtime_directory().glob("*.journal"))
    assert system.invalid == [] or rest["vm.dirty_background_ratio"] == 40


def test_nothing_is_raised_if_another_program_has_changed_a_threshold(system):
    with governing("govern", system) as host:
        expected = host.thresholds()
        at_rest(system, {"vm.dirty_ratio": 33})
        with pytest.raises(ChangedError):
            host.raise_thresholds(expected, DIRTY, BACKGROUNDS)
    assert system.values()["dirty_ratio"] == 33


def test_a_background_threshold_that_the_journal_does_not_list_is_refused(system):
    with governing("govern", system) as host:
        with pytest.raises(HostError, match="not in the journal"):
            host.set_background(BACKGROUNDS[0])
        host.raise_thresholds(host.thresholds(), DIRTY, BACKGROUNDS)
        with pytest.raises(HostError, match="not in the journal"):
            host.set_background(BACKGROUNDS[0] + 1)


@pytest.mark.parametrize("name", ["vm.dirty_ratio", "vm.dirty_background_bytes"])
def test_what_another_program_set_meanwhile_is_left_and_reported(system, name):
    before = system.values()
    with governing("govern", system) as host:
        host.raise_thresholds(host.thresholds(), DIRTY, BACKGROUNDS)
        host.set_background(BACKGROUNDS[0])
        at_rest(system, {name: 31})
        (sentence,) = host.lower()
    assert f"{name} = 31" in sentence
    pair = "dirty_background" if "background" in name else "dirty_"
    changed = {n for n, value in system.values().items() if value != before[n]}
    assert changed
    assert all(each.startswith(pair) for each in changed)
    assert system.values()[name.removeprefix("vm.")] == 31


def _raise_and_die(system):
    with governing("govern", system) as host:
        host.raise_thresholds(host.thresholds(), DIRTY, BACKGROUNDS)
        host.set_background(BACKGROUNDS[0])
        host.set_background(BACKGROUNDS[2])
        host.lower()
        host.raise_thresholds(host.thresholds(), DIRTY, BACKGROUNDS)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(step=st.integers(0, 70), rest=st.sampled_from(RESTS))
def test_killed_at_any_step_the_next_writer_restores_the_host(
    tmp_path_factory, monkeypatch, step, rest
):
    folder = tmp_path_factory.mktemp("host")
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(folder / "state"))
    system = FilesHost(folder / "root")
    before = at_rest(system, rest)
    with killed_at(step, system):
        _raise_and_die(system)
    if system.values() != before:
        assert left_by_a_killed_run(folder / "state", system)
    with Host.exclusive(WRITER, "a sweep", system):
        assert system.values() == before
    assert left_by_a_killed_run(folder / "state", system) == ()
    assert not list(runtime_directory().glob("*.journal"))


def test_after_a_boot_there_is_nothing_to_restore(system):
    with killed_at(40, system):
        _raise_and_die(system)
    booted = system.reboot()
    before = booted.values()
    with Host.exclusive(WRITER, "a sweep", booted) as host:
        assert list(host.recovered) == []
    assert booted.values() == before


def test_a_governor_keeps_every_other_writer_away_by_name(system, monkeypatch):
    monkeypatch.setattr(system, "is_running", lambda _: True)
    with governing("govern of /data", system):
        for other in (Host.exclusive(WRITER, "sweep", system), governing("another", system)):
            with pytest.raises(LockedError, match="govern of /data, process"), other:
                pass


def test_a_governor_is_refused_during_a_trial_whose_end_needs_the_lock(system):
    system.with_systemd()
    with applying("a trial", system) as host:
        host.start_trial(["systemd-run"], datetime(2026, 11, 23, tzinfo=timezone.utc))
        host.apply_sysctls({"vm.dirty_ratio": 60})
        host.keep()
    with pytest.raises(HostError, match="a trial"), governing("govern", system):
        pass
    AppliedHost(state_directory(), system).restore()
    with governing("govern", system) as governor:
        assert governor.thresholds()["vm.dirty_ratio"] == 20


def test_a_governor_starts_from_what_a_killed_sweep_had_changed_restored(system):
    before = system.values()
    with Host.lasting(WRITER, "a sweep", system) as sweep:
        sweep.set_writeback({"vm.dirty_ratio": 60})
    with governing("govern", system) as host:
        assert list(host.recovered)
        assert system.values() == before
        assert isinstance(host, RaisingHost)
