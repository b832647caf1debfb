# SPDX-License-Identifier: Apache-2.0
"""The command line's frame: light to start, helpful without arguments, errors without traceback."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from types import ModuleType

import pytest

from contracts.shared.errors import RequirementError
from profiler.cli import commands, main

HEAVY = {
    "bcc",
    "boto3",
    "botocore",
    "awscrt",
    "rich",
    "psutil",
    "yaml",
    "ctypes",
    "multiprocessing",
}
ONLY_IMPORT = """
import json, sys
from profiler.cli.main import build_parser
build_parser({words}).format_help()
print(json.dumps(sorted(sys.modules)))
"""
#: Not of all commands' arguments, but of the list of commands: each takes some milliseconds.
SLOW = {"dataclasses", "inspect", "difflib", "sysctl"}


def writewise(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profiler.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize(("words", "unwanted"), [("", HEAVY), (["--help"], HEAVY | SLOW)])
def test_help_imports_nothing_heavy(words: list[str] | str, unwanted: set[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", ONLY_IMPORT.format(words=words)],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in json.loads(result.stdout)}
    assert not loaded & unwanted
    assert "profiler" in loaded  # it did import what it names


def test_help_lists_every_command() -> None:
    result = writewise("--help")
    assert result.returncode == 0
    for command in commands.ALL:
        assert re.search(rf"^    {command.NAME}\s", result.stdout, re.M), command.NAME
        assert command.HELP.split()[0] in result.stdout


def test_without_arguments_it_shows_the_usage_and_fails() -> None:
    result = writewise()
    assert result.returncode == 2
    assert result.stderr.startswith("usage: writewise")
    assert "COMMAND" in result.stderr and "Traceback" not in result.stderr


def test_an_unknown_command_is_named_with_the_known_ones() -> None:
    result = writewise("prfile")
    assert result.returncode == 2
    assert "'prfile'" in result.stderr and "did you mean 'profile'?" in result.stderr
    nothing_alike = writewise("xyzzy")
    assert all(command.NAME in nothing_alike.stderr for command in commands.ALL)


def test_names_are_unique() -> None:
    names = [command.NAME for command in commands.ALL]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("command", commands.ALL, ids=lambda module: module.NAME)
def test_each_command_has_help(command: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main.main([command.NAME, "--help"])
    assert stopped.value.code == 0
    assert f"usage: writewise {command.NAME}" in capsys.readouterr().out
    assert command.HELP and not command.HELP.endswith(".")
    assert command.__doc__


def failing_command(error: BaseException) -> ModuleType:
    command = ModuleType("failing", "Fails.")
    command.NAME, command.HELP = "failing", "fail"  # type: ignore[attr-defined]
    command.add_arguments = lambda parser: None  # type: ignore[attr-defined]

    def run(arguments: argparse.Namespace) -> int:
        raise error

    command.run = run  # type: ignore[attr-defined]
    return command


@pytest.mark.parametrize(
    ("error", "exit_code", "printed"),
    [
        (RequirementError("root is needed", "sudo"), 3, "writewise: root is needed\n  → sudo\n"),
        (KeyboardInterrupt(), 130, "writewise: interrupted\n"),
    ],
)
def test_an_error_is_a_sentence_and_an_exit_code(
    error: BaseException,
    exit_code: int,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(commands, "ALL", (failing_command(error),))
    assert main.main(["failing"]) == exit_code
    assert capsys.readouterr().err == printed


def test_closed_streams_are_not_reported_as_a_bug() -> None:
    command = [sys.executable, "-m", "profiler.cli.main", "contract", "schema"]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&-', "-", *command], timeout=60)
    assert done.returncode == 0


def test_what_a_terminal_cannot_show_is_replaced() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "profiler.cli.main", "no-such-command-…"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert b"no-such-command" in done.stderr
    assert b"bug" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["advise", "/no/such/\x1b[31m"],
        ["contract", "check", "\x1b]0;title\x07"],
        ["verify", "/no/such/\x1b[31m\nwritewise: all is well"],
        ["\x1b[31m"],
    ],
)
def test_an_error_about_any_name_moves_no_cursor(arguments, capsys):
    assert main.main(arguments) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\\x1b" in said
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize("is_ignored", [False, True])
def test_an_interrupt_while_python_ends_prints_nothing(is_ignored):
    """Python's own modules would print a traceback, such as `threading` does."""
    code = """
import atexit, os, signal, sys
from profiler.cli import main
if sys.argv.pop() == "True":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.exit(main.program())
"""
    words = [sys.executable, "-c", code, "clients", "--json", str(is_ignored)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == (0 if is_ignored else -signal.SIGINT)
    assert done.stderr == "" and json.loads(done.stdout)["clients"]
