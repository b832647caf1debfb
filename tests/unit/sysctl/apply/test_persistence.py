# SPDX-License-Identifier: Apache-2.0
"""The file of `apply --persist`: its text describes this host, and what it replaces is reported."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from profiler import requirements
from profiler.cli import apply as apply_command
from profiler.cli import main
from sysctl.apply import persistence
from sysctl.apply.applying import Options, check, perform
from sysctl.apply.history import read_history
from sysctl.apply.plan import plan_of
from sysctl.host import system as host_system
from sysctl.host.applied_host import applying
from sysctl.host.system import HostError
from tests.unit.applied_hosts import FilesHost
from tests.unit.sysctl.apply.test_apply import SYSCTLS

PATH = "/etc/sysctl.d/90-writewise.conf"
PERSIST = Options(persist=True)
BROUGHT_BACK = "it is replaced, and rollback restores it"


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return FilesHost(tmp_path / "root")


@pytest.fixture
def recommendation(tmp_path, system, monkeypatch):
    """A file for the command line, which sees the host of files."""
    monkeypatch.setattr(host_system, "System", lambda: system)
    monkeypatch.setattr(requirements, "require", lambda *_: None)
    path = tmp_path / "recommendation.json"
    path.write_text(json.dumps(SYSCTLS.to_json()))
    path.chmod(0o600)
    return str(path)


def apply(system, change=SYSCTLS, options=PERSIST):
    with applying("test", system) as host:
        plan = plan_of(system, change)
        check(system, plan, options)
        perform(host, plan, options)


def persisted(system, change=SYSCTLS):
    return persistence.persisted_file(system, change, read_history(system))


def edit(system):
    text = system.path(PATH).read_text()
    system.path(PATH).write_text(text + "vm.swappiness = 1\n")


def test_the_text_describes_the_installed_file_and_this_host(system):
    assert SYSCTLS.other_form is not None
    for name, value in (("dirty_background_ratio", 7), ("dirty_ratio", 33)):
        system.write(f"/proc/sys/vm/{name}", str(value))
    apply(system)
    lines = system.path(PATH).read_text().splitlines()
    assert "# To undo:  writewise rollback" in lines
    at = lines.index(f"# By hand:  rm {PATH} &&")
    by_hand = "sysctl -w vm.dirty_ratio=33 vm.dirty_background_ratio=7"
    assert lines[at + 1].split(maxsplit=1) == ["#", by_hand]
    assert "vm.dirty_ratio = 60" in lines and "vm.dirty_background_ratio = 5" in lines
    assert not any("install -m" in line or "-bytes.conf" in line for line in lines)
    assert any(line.startswith("# Measured") for line in lines)


def test_a_threshold_in_bytes_can_be_restored_by_hand(system):
    system.write("/proc/sys/vm/dirty_bytes", str(2**30))
    assert (
        f"sysctl -w vm.dirty_background_ratio=10 vm.dirty_bytes={2**30}" in persisted(system).text
    )


def test_a_second_apply_names_the_values_before_the_first(system):
    apply(system)
    first = system.path(PATH).read_text()
    apply(system)
    assert system.path(PATH).read_text() == first
    other = replace(SYSCTLS, sysctls=(replace(SYSCTLS.sysctls[0], value=70), SYSCTLS.sysctls[1]))
    apply(system, other)
    text = system.path(PATH).read_text()
    assert "vm.dirty_ratio = 70\n" in text
    assert "sysctl -w vm.dirty_ratio=20 vm.dirty_background_ratio=10\n" in text


def test_an_unchanged_file_of_apply_is_replaced_without_a_message(system):
    assert persisted(system).replaces == ""
    apply(system)
    other = replace(SYSCTLS, sysctls=(replace(SYSCTLS.sysctls[0], value=70), SYSCTLS.sysctls[1]))
    assert (persisted(system).replaces, persisted(system, other).replaces) == ("", "")


def test_a_file_edited_since_is_reported_and_restored(system):
    apply(system)
    edit(system)
    edited = system.path(PATH).read_text()
    assert persisted(system).replaces == f"the existing file was edited since: {BROUGHT_BACK}"
    apply(system)
    assert system.path(PATH).read_text() != edited and persisted(system).replaces == ""
    with applying("test", system) as host:
        host.restore()
    assert system.path(PATH).read_text() == edited


def test_a_file_that_apply_did_not_write_is_reported(system):
    system.put(PATH, f"{persistence.OURS}: by hand\nvm.dirty_ratio = 1")
    said = persisted(system).replaces
    assert "was not written by apply" in said and BROUGHT_BACK in said


def test_without_the_journal_only_what_is_known_is_reported(system, tmp_path):
    apply(system)
    (tmp_path / "state/applied.journal").write_text("hello\n")
    edit(system)
    said = persisted(system).replaces
    assert said.startswith("replaces the existing file") and "line 1 is damaged" in said


def test_the_difference_is_shown_in_a_dry_run_too(system, recommendation, capsys):
    apply(system)
    edit(system)
    before = system.state()
    assert main.main(["apply", recommendation, "--persist", "--dry-run"]) == 0
    assert f"the existing file was edited since: {BROUGHT_BACK}" in capsys.readouterr().out
    assert system.state() == before


def test_a_symlink_in_the_place_of_the_file_is_named_as_one(system):
    system.put("/precious", persistence.OURS)
    system.path(PATH).symlink_to(system.path("/precious"))
    with pytest.raises(HostError, match=f"{PATH} is a symlink") as raised:
        apply(system)
    assert raised.value.hint == "move it away"
    assert system.path("/precious").read_text() == f"{persistence.OURS}\n"


def test_without_standard_input_there_is_no_question(system, recommendation, monkeypatch, capsys):
    before = system.state()
    monkeypatch.setattr("sys.stdin", None)
    assert main.main(["apply", recommendation]) == 2
    assert "no terminal to ask for confirmation; nothing was changed" in capsys.readouterr().err
    assert system.state() == before


def test_an_answer_that_is_not_text_means_no(monkeypatch):
    for typed, is_yes in ((b"\xff\n", False), (b"", False), (b"y\n", True)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
        assert apply_command.agrees("Apply this?") is is_yes
