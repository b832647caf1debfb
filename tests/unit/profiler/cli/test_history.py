# SPDX-License-Identifier: Apache-2.0
"""What commands add to the history, and what `writewise history` prints of it."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import sys
import types
from datetime import datetime, timedelta, timezone

import pytest

from contracts.shared.errors import RequirementError, UsageError, WritewiseError
from profiler.cli import commands, remembering
from profiler.cli.main import main
from profiler.history.file import add_entry, read_entries
from tests.unit.applied_hosts import FilesHost, in_place_of_this_host
from tests.unit.profiler.history.test_file import ENTRY
from tests.unit.studies import Study, ratio
from tests.unit.sysctl.apply.test_apply import SYSCTLS

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="apply needs root")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WRITEWISE_HISTORY")
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    Study().tried(ratio(80), 4.0).results.save(tmp_path / "results.json")
    return tmp_path / "state" / "history.jsonl"


@pytest.fixture
def made_up(monkeypatch):
    """Return a function that makes `writewise status` run it instead, and remembers it."""

    def replaced(run):
        command = types.ModuleType("made_up")
        vars(command).update(
            NAME="status",
            HELP="",
            IS_REMEMBERED=True,
            add_arguments=lambda parser: parser.add_argument("--dry-run", action="store_true"),
            run=run,
        )
        monkeypatch.setattr(commands, "ALL", (command,))

    return replaced


def entries(place):
    return read_entries(place).entries


def test_an_advice_is_remembered_with_who_asked_for_it(place):
    assert main(["advise", "results.json", "--output-dir", "files"]) == 0
    (entry,) = entries(place)
    assert (entry.command, entry.exit_code, entry.error) == ("advise", 0, None)
    assert entry.arguments == ("advise", "results.json", "--output-dir", "files")
    user = pwd.getpwuid(os.geteuid())
    assert entry.user == f"{user.pw_name} (uid {user.pw_uid})"
    (outcome,) = entry.outcome
    assert outcome.startswith("recommended dirty_ratio=80") and "5.0× faster" in outcome
    assert abs(entry.began - datetime.now(timezone.utc)) < timedelta(minutes=1)


@ROOT_ONLY
def test_under_sudo_it_is_the_caller(place, monkeypatch, made_up):
    monkeypatch.setenv("SUDO_UID", "65534")
    made_up(lambda arguments: remembering.remember(arguments, "done") or 0)
    main(["status"])
    assert entries(place)[0].user == f"{pwd.getpwuid(65534).pw_name} (uid 65534)"
    monkeypatch.setenv("SUDO_UID", "4000000000")
    main(["status"])
    assert entries(place)[1].user == "uid 4000000000"
    monkeypatch.setenv("SUDO_UID", "root; reboot")
    main(["status"])
    assert entries(place)[2].user.endswith("(uid 0)")


def test_what_was_applied_and_rolled_back_is_remembered(place, tmp_path, monkeypatch):
    monkeypatch.setattr("profiler.requirements.require", lambda *_: None)
    in_place_of_this_host(monkeypatch, FilesHost(tmp_path / "root"))
    (tmp_path / "recommendation.json").write_text(json.dumps(SYSCTLS.to_json()))
    assert main(["apply", "recommendation.json", "--dry-run"]) == 0
    assert main(["apply", "recommendation.json", "--yes"]) == 0
    assert main(["rollback"]) == 0
    assert main(["rollback"]) == 0, "nothing to restore: no entry"
    applied, restored = entries(place)
    assert (applied.command, restored.command) == ("apply", "rollback")
    assert "applied vm.dirty_ratio 20 → 60" in applied.outcome
    assert any(line.startswith("restored: vm.dirty_ratio = 20") for line in restored.outcome)


def test_no_secret_is_remembered(place, made_up, monkeypatch):
    made_up(lambda arguments: remembering.remember(arguments, "done") or 0)
    arguments = argparse.Namespace(command=commands.ALL[0])
    words = ["run", "--", "curl", "--api-key", "hunter2", "TOKEN=hunter3", "https://u:hunter4@host"]
    remembering.run_remembered(arguments, words)
    assert b"hunter" not in place.read_bytes()
    assert entries(place)[0].arguments[:3] == ("run", "--", "curl")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (WritewiseError("the disk is gone", "look"), 1, "the disk is gone"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (ZeroDivisionError("a bug"), 1, "a bug"),
        (KeyboardInterrupt(), 130, "ended by a signal"),
        (SystemExit(143), 143, "ended by a signal"),
    ],
)
def test_a_failure_is_remembered_with_its_reason(place, made_up, error, code, text):
    def run(_):
        raise error

    made_up(run)
    arguments = argparse.Namespace(command=commands.ALL[0])
    with pytest.raises(type(error)):
        remembering.run_remembered(arguments, ["status"])
    (entry,) = entries(place)
    assert entry.exit_code == code and text in entry.error


@pytest.mark.parametrize("error", [UsageError("wrong"), RequirementError("no root"), None])
def test_what_did_nothing_is_not_remembered(place, made_up, error):
    def run(_):
        if error:
            raise error
        return 1

    made_up(run)
    main(["status"])
    assert not place.exists()


def test_a_dry_run_is_not_remembered(place, made_up):
    made_up(lambda arguments: remembering.remember(arguments, "would") or 0)
    main(["status", "--dry-run"])
    assert not place.exists()


def test_it_can_be_turned_off(place, made_up, monkeypatch):
    monkeypatch.setenv("WRITEWISE_HISTORY", "off")
    made_up(lambda arguments: remembering.remember(arguments, "done") or 0)
    main(["status"])
    assert not place.exists()


def test_a_history_that_cannot_be_written_fails_no_command(place, made_up, capsys):
    place.parent.write_text("in the way")
    made_up(lambda arguments: remembering.remember(arguments, "done") or 7)
    assert main(["status"]) == 7
    printed = capsys.readouterr().err
    assert printed.startswith("writewise: not added to the history: ") and printed.count("\n") == 1
    assert main(["-q", "status"]) == 7 and capsys.readouterr().err == ""


def test_it_costs_no_start_up(place, made_up):
    for name in [name for name in sys.modules if name.startswith("profiler.history")]:
        del sys.modules[name]
    made_up(lambda _: 0)
    assert main(["status"]) == 0
    assert "profiler.history.file" not in sys.modules


def test_the_commands_that_measure_or_change_the_host_are_remembered():
    names = {each.NAME for each in commands.ALL if getattr(each, "IS_REMEMBERED", False)}
    assert names == {
        *("profile", "pull", "sweep", "bench-clients", "transfer", "advise"),
        *("apply", "run", "govern", "rollback", "study"),
    }


def add(place, **fields):
    from dataclasses import replace

    add_entry(place, replace(ENTRY, **fields))


def test_the_newest_is_last_and_text_cannot_move_the_cursor(place, capsys):
    add(place, at="2026-11-01T00:00:00+00:00", outcome=("old",))
    line = ENTRY.to_line().replace(b"20 \xe2\x86\x92 60", b"\\u001b[2J\\u202e")
    with place.open("ab") as file:
        file.write(line)
    assert main(["history"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b[2J" not in printed and r"\x1b[2J\u202e" in printed
    assert printed.index("old") < printed.index("x1b")
    assert "alice (uid 1000)  writewise apply recommendation.json --yes (1.50 s)" in printed


def test_since(place, capsys):
    now = datetime.now(timezone.utc)
    for days in (40, 3, 0):
        at = (now - timedelta(days=days)).isoformat(timespec="seconds")
        add(place, at=at, command=f"c{days}")
    day = (now - timedelta(days=10)).strftime("%Y-%m-%d")
    for since, wanted in (
        ("7d", ["c3", "c0"]),
        ("24h", ["c0"]),
        (day, ["c3", "c0"]),
        (f"{day}T12:00", ["c3", "c0"]),
        ("2001-01-01", ["c40", "c3", "c0"]),
    ):
        assert main(["history", "--since", since, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [each["command"] for each in document["entries"]] == wanted, since


@pytest.mark.parametrize(
    "since", ["", "yesterday", "9999999999d", "2026-13-01", "-1d", "0001-01-01"]
)
def test_a_wrong_time_is_one_sentence(place, since, capsys):
    code = main(["history", "--since", since])
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert (code, printed) == (0, "") or (code == 2 and "invalid" in printed)


def test_lines_that_were_skipped_are_reported(place, capsys):
    add(place)
    with place.open("ab") as file:
        file.write(b'{"version": 1, "at')
    assert main(["history"]) == 0
    assert "1 line of" in capsys.readouterr().out
    assert main(["history", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 1


def test_an_empty_history(place, capsys):
    assert main(["history"]) == 0
    assert capsys.readouterr().out == f"no entries in {place}\n"


def test_a_history_that_cannot_be_read_is_one_sentence(place, capsys):
    place.parent.mkdir()
    place.mkdir()
    assert main(["history"]) == 1
    assert capsys.readouterr().err.startswith(f"writewise: cannot use {place}: ")
