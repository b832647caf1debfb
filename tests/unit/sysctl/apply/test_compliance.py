# SPDX-License-Identifier: Apache-2.0
"""verify and status: compliant or not, with the reason; what is applied, left over and running."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from profiler.cli import main
from profiler.report.applying import print_compliance, print_plan, print_state
from sysctl.apply.applying import Options, perform
from sysctl.apply.compliance import check_compliance, wanted_by, wanted_by_applied
from sysctl.apply.plan import plan_of
from sysctl.apply.state import read_state
from sysctl.host import system as host_system
from sysctl.host.applied_host import AppliedHost, applying
from sysctl.host.host import Host, state_directory
from tests.unit.applied_hosts import FilesHost
from tests.unit.sysctl.apply.test_apply import CHANGE, SYSCTLS


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return FilesHost(tmp_path / "root")


def apply(system, change=CHANGE, options=Options(persist=True, mounts=True)):  # noqa: B008
    with applying("test", system) as host:
        perform(host, plan_of(system, change), options)


def applied(system):
    return AppliedHost(state_directory(), system).applied()


def checks(system, change=CHANGE):
    found = check_compliance(system, wanted_by(system, change), applied(system))
    return {check.name: check for check in found}


def test_an_applied_recommendation_is_compliant(system):
    apply(system)
    found = checks(system)
    assert list(found) == [
        "vm.dirty_ratio",
        "vm.dirty_background_ratio",
        "7:0 queue/scheduler",
        "mount /data",
    ]
    assert all(check.is_compliant and not check.note for check in found.values())
    of_journal = check_compliance(
        system, wanted_by_applied(system, applied(system)), applied(system)
    )
    assert {check.name: check for check in of_journal} == found


def test_a_recommendation_that_was_never_applied_is_not_compliant(system):
    found = checks(system)
    assert not any(check.is_compliant for check in found.values())
    assert found["vm.dirty_ratio"].reason == "not applied on this host, or changed since"
    assert found["mount /data"].present == "defaults"


def test_a_value_that_a_boot_resets_is_reported(system):
    apply(system, SYSCTLS, Options())
    assert checks(system, SYSCTLS)["vm.dirty_ratio"].note.startswith("in no file of sysctl.d")


def test_an_overriding_file_is_named(system):
    apply(system, SYSCTLS, Options(persist=True))
    system.put("/etc/sysctl.d/99-zz.conf", "vm.dirty_bytes = 1073741824")
    line = "vm.dirty_bytes = 1073741824 in /etc/sysctl.d/99-zz.conf, line 1"
    assert checks(system, SYSCTLS)["vm.dirty_ratio"].note == f"a boot sets {line}"
    system.write("/proc/sys/vm/dirty_bytes", str(2**30))
    found = checks(system, SYSCTLS)["vm.dirty_ratio"]
    assert found.present == "vm.dirty_bytes = 1073741824"
    assert found.reason == f"overridden: {line}"


def test_a_value_changed_since_is_reported_with_the_time(system):
    apply(system, SYSCTLS, Options())
    system.write("/proc/sys/vm/dirty_ratio", "33")
    reason = checks(system, SYSCTLS)["vm.dirty_ratio"].reason
    assert reason.startswith("changed since it was applied at 20")
    assert reason.endswith(", but by no file of sysctl.d")


def test_a_sysctl_that_this_kernel_lacks_is_reported(system):
    system.path("/sys/block/7:0/queue/scheduler").unlink()
    reason = checks(system)["7:0 queue/scheduler"].reason
    assert reason == "this kernel does not have this knob for this disk"


def test_a_missing_disk_is_reported(system):
    change = replace(CHANGE, disk=replace(CHANGE.disk, target="/gone"), mount=None)
    assert "nothing is mounted on /gone" in checks(system, change)["queue/scheduler"].reason


def test_a_changed_mount_is_reported(system):
    apply(system)
    system.run(["mount", "-o", "relatime"])
    assert "noatime" in checks(system)["mount /data"].reason


def shown(show, *arguments, **options):
    console = Console(width=100, record=True, file=io.StringIO())
    show(*arguments, console, **options)
    return console.export_text()


def test_the_tables_show_everything_in_plain_text(system):
    system.put("/etc/sysctl.d/99-zz.conf", "vm.dirty_ratio = \x1b[2J")
    plan = shown(print_plan, plan_of(system, CHANGE), remounts=False)
    assert "20 (819 MiB)" in plan and "→  60 (2.40 GiB)" in plan
    assert r"also set: vm.dirty_ratio = \x1b[2J in /etc/sysctl.d/99-zz.conf, line 1" in plan
    assert "In /etc/fstab:\n  nosuid,noatime" in plan and "\x1b" not in plan
    table = shown(print_compliance, list(checks(system).values()))
    assert "vm.dirty_ratio" in table and "NOT compliant" in table
    apply(system)
    assert "compliant" in shown(print_compliance, list(checks(system).values()))
    assert "as it is" in shown(print_plan, plan_of(system, CHANGE), remounts=True)


def test_the_state_has_what_is_applied_and_what_a_killed_run_left(system):
    assert read_state(system).applied == () and read_state(system).lock_holder is None
    apply(system)
    state = read_state(system)
    assert [item.what for item in state.applied] == [
        "vm.dirty_ratio = 60, vm.dirty_background_ratio = 5",
        "/etc/sysctl.d/90-writewise.conf",
        "7:0: queue/scheduler = none",
        "/data mounted with noatime",
    ]
    assert state.files == ("/etc/sysctl.d/90-writewise.conf",) and not state.interrupted
    host = Host(state_directory(), "sweep", system)
    host.set_writeback({"vm.dirty_ratio": 80})  # without a restore, as after a kill
    assert "vm.dirty_ratio = 60" in read_state(system).interrupted[0]
    text = shown(print_state, read_state(system))
    assert "left by a killed run: vm.dirty_ratio = 60" in text and "applied at 20" in text
    with Host.lasting("sweep", "sweep of /data", system):
        state = read_state(system)
    assert state.lock_holder.startswith("sweep of /data") and not state.interrupted


def test_verify_of_a_recommendation_has_an_exit_code_and_a_document(
    tmp_path, system, capsys, monkeypatch
):
    monkeypatch.setattr(host_system, "System", lambda: system)
    path = tmp_path / "recommendation.json"
    change = replace(SYSCTLS, sysctls=(replace(SYSCTLS.sysctls[0], value=99),), other_form=None)
    path.write_text(json.dumps(change.to_json()))
    assert main.main(["verify", str(path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["compliant"] is False
    assert document["settings"][0]["name"] == "vm.dirty_ratio"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--for", "0"], "use 1s to 7d"),
        (["--for", "8d"], "use 1s to 7d"),
        (["--for", "99999999h"], "use 1s to 7d"),
        (["--for", "30m", "--persist"], "--persist and --for cannot be used together"),
    ],
)
def test_options_that_contradict_are_refused(tmp_path, capsys, arguments, said):
    path = tmp_path / "recommendation.json"
    path.write_text(json.dumps(SYSCTLS.to_json()))
    assert main.main(["apply", str(path), *arguments]) == 2
    assert said in capsys.readouterr().err
