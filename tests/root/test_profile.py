# SPDX-License-Identifier: Apache-2.0
"""`writewise profile` as a user runs it: exit codes, where output goes, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import REPOSITORY

pytestmark = pytest.mark.side_by_side

WRITEWISE = [sys.executable, "-m", "profiler.cli.main", "profile"]


def profile(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*WRITEWISE, *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start it in its own session, so that no terminal sends Ctrl-C to the command."""
    command = [*WRITEWISE, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    path = tmp_path / "contract"
    path.write_text(
        f"2,monitortimeframe,1000s\ncalls,{folder},write,all,count,1\n"
        f"bytes,{folder},write,all,bandwidth,1MB\n"
    )
    return path


def dd(contract: Path, count: int) -> list[object]:
    target = contract.parent / "data" / "file"
    return ["dd", "if=/dev/zero", f"of={target}", "bs=100", f"count={count}", "status=none"]


def test_the_report_leaves_standard_output_to_the_command(contract: Path) -> None:
    shell = ["sh", "-c", 'echo mine; "$@"; exit 7', "-", *dd(contract, 5)]
    done = profile("--contract", contract, "--", *shell)
    assert (done.returncode, done.stdout) == (7, "mine\n")
    assert "5 write calls, 500 B, 0 failed" in done.stderr
    assert "Lost: nothing" in done.stderr
    assert "Stalled by dirty throttling: never" in done.stderr


def test_json_has_standard_output_to_itself(contract: Path) -> None:
    shell = ["sh", "-c", 'echo mine; "$@"', "-", *dd(contract, 5)]
    done = profile("--contract", contract, "--json", "--", *shell)
    assert (done.returncode, done.stderr) == (0, "mine\n")
    document = json.loads(done.stdout)
    findings = [(entry["label"], entry["value"]) for entry in document["findings"]]
    assert findings == [("calls", 5), ("bytes", 500)]
    assert [entry["violated"] for entry in document["findings"]] == [True, False]
    assert document["losses"]["total"] == document["in_flight"] == 0


def test_output_goes_to_a_new_file(contract: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arguments = ["--contract", contract, "--json", "--output", report, "--", *dd(contract, 3)]
    done = profile(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads(report.read_text())["findings"][0]["value"] == 3
    again = profile(*arguments)
    assert again.returncode == 125
    assert "File exists" in again.stderr


def test_the_shipped_contract_is_the_default() -> None:
    done = profile("--", "true")
    assert done.returncode == 0
    assert "mean_lat_write" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (["--", "no-such-command"], 127, "cannot run no-such-command: No such file"),
        (["--", "/etc/passwd"], 126, "cannot run /etc/passwd: Permission denied"),
        (["--", "sh", "-c", "kill -9 $$"], 137, "Lost: nothing"),
        (["--pid", "4194303"], 2, "cannot follow process 4194303"),
        (["--pid", "4294967297"], 2, "invalid process id '4294967297'; use 1 to 4194303"),
        (["--duration", "5x"], 2, "invalid duration '5x'; use a number with a unit"),
        (["--duration", "10000000000s"], 2, "is too long; use at most 24d"),
        (["--pid", "1", "--duration", "2147484s"], 2, "is too long; use at most 24d"),
        (["--pid", "1", "--", "true"], 125, "--pid and --duration cannot be used with a command"),
        (["--output", "/no/such/folder/file", "--", "true"], 125, "cannot write"),
        (["--contract", "/no/such/file", "--", "true"], 125, "cannot read the contract"),
    ],
)
def test_exit_codes(arguments: list[str], exit_code: int, sentence: str) -> None:
    done = profile(*arguments)
    assert done.returncode == exit_code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_report_that_was_not_made_leaves_no_file(tmp_path: Path) -> None:
    report = tmp_path / "report"
    assert profile("--output", report, "--", "no-such-command").returncode == 127
    assert not report.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_end_before_anything_is_counted_leaves_no_report(number: int, tmp_path: Path) -> None:
    report = tmp_path / "report"
    process = start("--output", report, "--duration", "60s")
    while not report.exists():
        assert process.poll() is None
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert not report.exists()


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_go_to_the_command_and_the_report_is_printed(
    number: signal.Signals, exit_code: int
) -> None:
    process = start("--", "sh", "-c", "echo started; exec sleep 30")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(number)
    report = process.communicate(timeout=20)[1]
    assert process.returncode == exit_code
    assert "num_write" in report
    assert "Lost: nothing" in report


def test_what_a_shell_hands_over_reaches_the_command() -> None:
    command = ["bash", "-c", '"$@" cat <(echo handed)', "-", *WRITEWISE, "--"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.stdout == "handed\n", done.stderr


def test_the_command_gets_no_descriptor_of_ours() -> None:
    done = profile("--", "ls", "/proc/self/fd")
    assert done.stdout.split() == ["0", "1", "2", "3"]  # 3 is the directory


def test_a_process_until_it_ends(contract: Path) -> None:
    shell = ["sh", "-c", 'read line; "$@"', "-", *map(str, dd(contract, 4))]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, text=True) as target:
        process = start("--contract", contract, "--json", "--pid", target.pid)
        wait_until_attached(process)
        target.communicate("go\n")
        document = json.loads(process.communicate(timeout=20)[0])
    assert process.returncode == 0
    assert document["findings"][0]["value"] == 4
    assert document["scope"] == {"target": "process", "comm": None, "cgroup": None}


def test_a_process_until_the_time_is_over() -> None:
    done = profile("--pid", os.getpid(), "--duration", "100ms")
    assert done.returncode == 0
    assert "num_write" in done.stdout


def test_threads_of_a_name_alone(contract: Path) -> None:
    shell = ["sh", "-c", 'echo mine >"$0"; "$@"', contract.parent / "data" / "own"]
    done = profile("--contract", contract, "--json", "--comm", "dd", "--", *shell, *dd(contract, 5))
    assert json.loads(done.stdout)["findings"][0]["value"] == 5
    done = profile("--contract", contract, "--json", "--comm", "sh", "--", *shell, *dd(contract, 5))
    assert json.loads(done.stdout)["findings"][0]["value"] == 1


def test_a_name_is_enough_to_profile_the_host(contract: Path) -> None:
    process = start("--contract", contract, "--json", "--comm", "dd")
    wait_until_attached(process)
    subprocess.run(["sh", "-c", 'echo other >"$0"', contract.parent / "data" / "own"], check=True)
    subprocess.run(list(map(str, dd(contract, 6))), check=True)
    process.send_signal(signal.SIGINT)
    document = json.loads(process.communicate(timeout=20)[0])
    assert document["findings"][0]["value"] == 6
    assert document["scope"] == {"target": "host", "comm": "dd", "cgroup": None}


def test_the_whole_host(contract: Path) -> None:
    process = start("--contract", contract, "--json", "--duration", "60s")
    wait_until_attached(process)
    subprocess.run(list(map(str, dd(contract, 6))), check=True)
    process.send_signal(signal.SIGINT)
    document = json.loads(process.communicate(timeout=20)[0])
    assert process.returncode == 0
    assert document["findings"][0]["value"] == 6


def wait_until_attached(process: subprocess.Popen[str]) -> None:
    """Wait until it says that it counts: from then on a signal ends it with a report."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.endswith("; Ctrl-C ends it and reports\n"), line
