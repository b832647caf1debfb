# SPDX-License-Identifier: Apache-2.0
"""`verify` keeps compliant, not compliant and not checked apart, and makes no false claim."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from profiler import requirements
from profiler.cli import main
from sysctl.apply.compliance import check_compliance, wanted_by
from sysctl.apply.plan import plan_of
from sysctl.host import system as host_system
from sysctl.host.applied_host import applying
from tests.unit.applied_hosts import FilesHost
from tests.unit.ordinary_user import open_folder, ordinary_user
from tests.unit.sysctl.apply.test_apply import SYSCTLS

RATIO = replace(SYSCTLS, sysctls=SYSCTLS.sysctls[:1], other_form=None)


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Return the folder of the journal."""
    folder = tmp_path / "state"
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(folder))
    monkeypatch.setattr(requirements, "require", lambda *_: None)
    return folder


@pytest.fixture
def host(tmp_path, state, monkeypatch):
    """A host of files in place of this one."""
    files = FilesHost(tmp_path / "root")
    monkeypatch.setattr(host_system, "System", lambda: files)
    return files


@pytest.fixture
def recommendation(tmp_path):
    path = tmp_path / "recommendation.json"
    path.write_text(json.dumps(RATIO.to_json()))
    return str(path)


def damage(state):
    state.mkdir(mode=0o700)
    (state / "applied.journal").write_text("hello\n")


def verified(capsys, *arguments):
    code = main.main(["verify", *arguments, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out), printed.err


def test_a_damaged_journal_costs_a_recommendation_only_when_it_was_applied(
    host, state, recommendation, capsys
):
    damage(state)
    code, document, errors = verified(capsys, recommendation)
    assert (code, document["compliant"], errors) == (1, False, "")
    assert document["settings"][0]["reason"] == "not applied on this host, or changed since"
    (note,) = document["notes"]
    assert note.startswith("cannot determine when it was applied: the journal ")
    host.write("/proc/sys/vm/dirty_ratio", "60")
    assert verified(capsys, recommendation)[0] == 0
    assert main.main(["verify", recommendation]) == 0
    assert "cannot determine when it was applied" in capsys.readouterr().out


def test_what_was_applied_cannot_be_checked_with_a_damaged_journal(host, state, capsys):
    damage(state)
    code, document, errors = verified(capsys, "--applied")
    assert (code, document["compliant"], document["settings"]) == (4, None, [])
    assert "line 1 is damaged" in document["error"] and document["hint"]
    assert document["error"] in errors


def test_nothing_applied_is_not_reported_as_not_compliant(host, capsys):
    code, document, errors = verified(capsys, "--applied")
    assert (code, document["compliant"]) == (4, None)
    assert document["error"] == "nothing is applied on this host" and document["error"] in errors


def test_a_recommendation_that_cannot_be_read_is_not_checked(host, tmp_path, capsys):
    code, document, _ = verified(capsys, str(tmp_path / "gone.json"))
    assert code == 2 and "gone.json" in document["error"]


def test_a_host_that_cannot_be_read_is_not_checked(host, recommendation, capsys):
    host.path("/proc/sys/vm/dirty_bytes").unlink()
    host.path("/proc/sys/vm/dirty_bytes").mkdir()
    code, document, _ = verified(capsys, recommendation)
    assert code == 4 and "cannot read /proc/sys/vm/dirty_bytes" in document["error"]


def test_the_help_has_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main.main(["verify", "--help-all"])
    text = " ".join(capsys.readouterr().out.split())
    assert "0 if every setting is in force, 1 if one is not, 4 if it cannot be determined" in text


@pytest.fixture
def readable_host():
    """A host of files that an ordinary user may read, except those that a test closes."""
    with open_folder() as root:
        yield FilesHost(root)


def checked(system, change=RATIO, applied=()):
    return check_compliance(system, wanted_by(system, change), applied)[0]


def close(system):
    system.put("/etc/sysctl.d/99-z.conf", "vm.dirty_ratio = 33")
    system.path("/etc/sysctl.d/99-z.conf").chmod(0o000)


def test_a_file_that_may_not_be_read_is_named_instead_of_a_claim(readable_host):
    system = readable_host
    system.write("/proc/sys/vm/dirty_ratio", "60")
    close(system)
    with ordinary_user():
        note = checked(system).note
        of_plan = plan_of(system, RATIO).notes[-1]
    assert note == (
        "in no readable file of sysctl.d: a boot resets it, unless another file has it; "
        "not readable: /etc/sysctl.d/99-z.conf (Permission denied)"
    )
    assert of_plan.endswith("cannot be read: /etc/sysctl.d/99-z.conf (Permission denied)")


def test_a_reason_claims_nothing_that_an_unreadable_file_could_refute(readable_host):
    close(readable_host)
    with ordinary_user():
        reason = checked(readable_host).reason
    assert "not readable: /etc/sysctl.d/99-z.conf (Permission denied)" in reason


def test_a_value_in_hexadecimal_is_the_value_that_a_boot_sets(tmp_path):
    system = FilesHost(tmp_path)
    system.write("/proc/sys/vm/dirty_ratio", "60")
    system.put("/etc/sysctl.d/99-z.conf", "vm.dirty_ratio = 0x3c")
    assert checked(system).note == ""
    system.write("/proc/sys/vm/dirty_ratio", "8")
    system.put("/etc/sysctl.d/99-z.conf", "vm.dirty_ratio = 010")
    line = "vm.dirty_ratio = 010 in /etc/sysctl.d/99-z.conf, line 1"
    assert checked(system).reason == f"overridden: {line}"


def with_tuned(system, value):
    system.put("/etc/tuned/active_profile", "mine")
    system.put("/etc/tuned/mine/tuned.conf", f"[sysctl]\nvm.dirty_ratio = {value}")
    return f"vm.dirty_ratio = {value} by the TuneD profile mine (/etc/tuned/mine/tuned.conf)"


def test_tuned_is_the_reason_if_its_value_is_in_force(tmp_path):
    system = FilesHost(tmp_path)
    setter = with_tuned(system, 20)
    assert checked(system).reason == f"overridden: {setter}"
    assert [str(each) for each in plan_of(system, RATIO).sysctls[0].others] == [setter]


def test_tuned_is_reported_if_it_may_still_change_the_value(tmp_path):
    system = FilesHost(tmp_path)
    setter = with_tuned(system, 40)
    assert checked(system).reason == (
        f"not applied on this host, or changed since; also set: {setter}"
    )
    system.write("/proc/sys/vm/dirty_ratio", "60")
    system.put("/etc/sysctl.d/99-z.conf", "vm.dirty_ratio = 60")
    assert checked(system).note == f"also set: {setter}"


def test_a_boot_sets_the_kernel_parameter_unless_a_file_overrides_it(tmp_path):
    system = FilesHost(tmp_path)
    system.put("/proc/cmdline", "ro sysctl.vm.dirty_ratio=20")
    setter = "vm.dirty_ratio = 20 by the kernel parameter sysctl.vm.dirty_ratio"
    assert checked(system).reason == f"overridden: {setter}"
    assert [str(each) for each in plan_of(system, RATIO).sysctls[0].others] == [setter]
    system.write("/proc/sys/vm/dirty_ratio", "60")
    assert checked(system).note == f"a boot sets {setter}"
    system.put("/etc/sysctl.d/99-z.conf", "vm.dirty_ratio = 60")
    assert checked(system).note == ""


def test_the_time_of_the_apply_is_reported(host):
    with applying("test", host) as writer:
        writer.apply_sysctls({"vm.dirty_ratio": 60})
        writer.keep()
        applied = writer.applied()
    host.write("/proc/sys/vm/dirty_ratio", "33")
    reason = checked(host, applied=applied).reason
    assert reason.startswith("changed since it was applied at 20")
    assert reason.endswith(", but by no file of sysctl.d")
