# SPDX-License-Identifier: Apache-2.0
"""Trial periods and the recovery at boot: the exact commands for systemd."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from contracts.shared.trust import UntrustedError
from profiler import requirements
from profiler.cli import main
from sysctl.advice.advise import advise
from sysctl.apply import units
from sysctl.apply.applying import Options, check, install_recovery, perform
from sysctl.apply.plan import plan_of
from sysctl.host.applied_host import AppliedHost, applying
from sysctl.host.host import state_directory
from sysctl.host.system import HostError, System
from tests.unit.applied_hosts import FilesHost, in_place_of_this_host, killed_at
from tests.unit.changes import change_in
from tests.unit.studies import Study, ratio

CHANGE = change_in(advise(Study().tried(ratio(60), 3.6).results))
TRIAL = Options(trial_s=1800)


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return FilesHost(tmp_path / "root").with_systemd()


def apply(system, options=TRIAL):
    with applying("test", system) as host:
        plan = plan_of(system, CHANGE)
        check(system, plan, options)
        return perform(host, plan, options)


def timer(system):
    return system.exists("/run/systemd/transient/writewise-revert.timer")


def test_the_timer_is_started_before_anything_is_changed(system, tmp_path):
    done = apply(system)
    assert system.commands == [
        [
            "systemd-run",
            "--unit=writewise-revert",
            "--description=End of a trial period of writewise",
            "--on-active=1800s",
            "--timer-property=AccuracySec=1s",
            "--property=Restart=on-failure",
            "--property=RestartSec=60s",
            "--property=StartLimitIntervalSec=0",
            "--collect",
            f"--setenv=WRITEWISE_STATE_DIRECTORY={tmp_path / 'state'}",
            "--",
            *units.program(),
            "rollback",
            "--trial",
        ]
    ]
    assert done[0].startswith("the old values return automatically at 20")


def test_without_the_timer_nothing_is_applied(system):
    before = system.state()

    def refuses(argv):
        raise HostError("systemd-run … failed")

    system.run = refuses
    with pytest.raises(HostError, match="systemd-run"):
        apply(system)
    assert system.state() == before


def test_a_trial_killed_at_any_step_leaves_no_value_without_its_timer(tmp_path, monkeypatch):
    for step in range(1000):  # a deeper directory takes more steps
        monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / f"state-{step}"))
        system = FilesHost(tmp_path / str(step)).with_systemd()
        before = system.state()
        with killed_at(step, system) as made:
            apply(system)
        assert timer(system) or system.state() == before
        AppliedHost(state_directory(), system).restore()  # what the timer runs
        assert system.state() == before and not timer(system)
        if len(made) <= step:
            break
    assert step > 10


def test_rollback_ends_the_trial(system):
    before = system.state()
    apply(system)
    AppliedHost(state_directory(), system).restore()
    assert system.state() == before and not timer(system)
    assert system.commands[-1] == ["systemctl", "stop", "writewise-revert.timer"]


def test_an_apply_without_a_trial_keeps_the_values_on_trial(system):
    apply(system)
    apply(system, Options())
    assert not timer(system) and system.values()["dirty_ratio"] == 60


def test_the_timer_of_a_trial_ended_by_an_apply_reverts_nothing(system, monkeypatch, capsys):
    """The timer elapsed while the lock was held, and systemd starts its service again."""
    in_place_of_this_host(monkeypatch, system)
    monkeypatch.setattr(requirements, "require", lambda *_: None)
    before = system.state()
    apply(system)
    assert main.main(["rollback", "--trial"]) == 0 and system.state() == before
    apply(system)
    apply(system, Options())
    assert main.main(["rollback", "--trial"]) == 0
    assert "there is no trial period any more" in capsys.readouterr().out
    assert system.values()["dirty_ratio"] == 60
    assert main.main(["rollback"]) == 0 and system.state() == before


def test_a_second_trial_is_refused_while_an_elapsed_ones_service_retries(system):
    apply(system)
    (system.root / "run/systemd/transient/writewise-revert.timer").unlink()
    system.put("/run/systemd/transient/writewise-revert.service", "")
    with pytest.raises(HostError, match=r"there is already a trial period until 20"):
        apply(system)


def test_a_second_trial_is_refused_while_one_runs(system):
    apply(system)
    with pytest.raises(HostError, match=r"there is already a trial period until 20"):
        apply(system)
    assert timer(system) and system.values()["dirty_ratio"] == 60


@pytest.mark.parametrize("options", [TRIAL, Options(install_recovery=True)])
def test_a_program_that_others_could_change_is_not_started_later_as_root(
    system, options, tmp_path, monkeypatch
):
    program = tmp_path / "writewise"
    program.write_text("#!/bin/sh\n")
    monkeypatch.setattr(units, "program", lambda: (str(program),))
    before = system.state()
    program.chmod(0o775)
    with pytest.raises(UntrustedError, match=f"others can write to {program}"):
        apply(system, options)
    assert system.state() == before and system.commands == []
    program.chmod(0o755)
    apply(system, options)


def test_without_systemd_a_trial_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    system = FilesHost(tmp_path / "root")
    for options in (TRIAL, Options(install_recovery=True)):
        with pytest.raises(HostError, match="needs systemd, which does not run this host"):
            apply(system, options)
    assert system.commands == []


def test_an_installation_killed_at_any_step_leaves_no_partial_unit(tmp_path, monkeypatch):
    for step in range(1000):  # a deeper directory takes more steps
        monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / f"state-{step}"))
        system = FilesHost(tmp_path / str(step)).with_systemd()
        with killed_at(step, system) as made, applying("test", system) as host:
            install_recovery(host)
            host.keep()
        with applying("later", system):
            pass
        units = [name for name in system.files() if name.startswith("systemd/")]
        assert units in ([], ["systemd/system/writewise-recover.service"]), step
        if len(made) <= step:
            break
    assert step > 10 and units


def test_the_unit_is_installed_and_survives_a_rollback(system):
    with applying("test", system) as host:
        install_recovery(host)
    text = system.path(units.RECOVERY_PATH).read_text()
    assert text == units.recovery_unit(units.program())
    assert system.commands == [
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable", "writewise-recover.service"],
    ]
    assert "rollback --interrupted\n" in text
    AppliedHost(state_directory(), system).restore()
    assert system.exists(units.RECOVERY_PATH)


def test_a_unit_of_somebody_else_is_not_replaced(system):
    system.put(units.RECOVERY_PATH, "[Unit]")
    with pytest.raises(HostError, match="was not written by Writewise"):
        apply(system, Options(install_recovery=True))
    assert system.path(units.RECOVERY_PATH).read_text() == "[Unit]\n"


@pytest.mark.parametrize("folder", ["plain", "with blank", "100%", "%n"])
def test_systemd_accepts_the_unit_with_any_path(tmp_path, folder):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    program = tmp_path / folder / "writewise"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / units.RECOVERY_UNIT
    unit.write_text(units.recovery_unit((str(program),)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", ["/a\nExecStartPre=/bin/sh", '/a"b', "/a$b", "/a\\b", "/a'b"])
def test_a_path_that_a_unit_cannot_contain_is_refused(path):
    with pytest.raises(HostError, match="a systemd unit cannot contain"):
        units.recovery_unit((path,))


def test_a_refusal_names_the_reason_of_this_host():
    if System().exists("/run/systemd/system"):
        pytest.skip("systemd runs this host")
    with pytest.raises(HostError, match="--for needs systemd"):
        units.require_start_by_systemd(System(), "--for")
