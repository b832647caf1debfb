# SPDX-License-Identifier: Apache-2.0
"""Every report fits the terminal: no line is wider than 80, 100 or 120 columns.

In a file or a pipe sentences stay whole, tables have 80 columns, and there are no escape codes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from contracts.evaluate import evaluate
from contracts.model import Contract
from profiler.pull.clients.survey import survey
from profiler.pull.measured import PullMeasurement
from profiler.report import client_bench
from profiler.report.advice import print_details
from profiler.report.applying import (
    print_compliance,
    print_persisted_file,
    print_plan,
    print_state,
)
from profiler.report.console import FILE_COLUMNS, plain_console, print_lines
from profiler.report.findings import findings_table
from profiler.report.listings import print_clients, print_requirements
from profiler.report.prediction import Asked, Line, print_predictions
from profiler.report.profile import frames_lines, print_look
from profiler.report.pulls import print_pull
from profiler.report.why import explain, print_why
from profiler.report.written import print_written
from profiler.requirements import CheckResult
from sysctl.apply.compliance import Compliance
from sysctl.apply.persistence import PersistedFile
from sysctl.apply.plan import plan_of
from sysctl.apply.state import AppliedItem, AppliedState
from sysctl.apply.sysctl_files import Assignment
from sysctl.evidence.prediction import fit
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from tests.unit.applied_hosts import FilesHost
from tests.unit.predictions import results
from tests.unit.profiler.client_bench.test_client_bench import cell, comparison, row
from tests.unit.profiler.report.test_profile import COUNTS, SECOND_NS, profile_of
from tests.unit.profiler.report.test_pulls import CONTRACT, MEASURED
from tests.unit.profiler.report.test_summary import CASES
from tests.unit.sweeps import GIB
from tests.unit.sysctl.apply.test_apply import CHANGE

LONG = "a sentence that goes on for longer than any terminal is wide, as reasons often do, " * 3
SET_ELSEWHERE = Assignment("/etc/sysctl.d/99-zz.conf", 1, "vm.dirty_bytes", "1073741824")
Show = Callable[[Console], None]


def show_plan(root: Path, console: Console, *, remounts: bool) -> None:
    system = FilesHost(root)
    system.put("/etc/sysctl.d/99-tuning.conf", "vm.dirty_ratio = 30")
    print_plan(plan_of(system, CHANGE), console, remounts=remounts)
    print_persisted_file(
        PersistedFile("/etc/sysctl.d/90-writewise.conf", "", (SET_ELSEWHERE,), LONG), console
    )


def show_compliance(console: Console) -> None:
    checks = [
        Compliance("vm.dirty_background_ratio", "10", "10", note=LONG),
        Compliance("mount /data", "noatime,nodiratime,logbsize=256k", "relatime", LONG),
        Compliance("nvme1n1 queue/scheduler", "mq-deadline", "none", LONG),
    ]
    print_compliance(checks, console, [LONG])


def show_state(console: Console) -> None:
    item = AppliedItem("vm.dirty_ratio=80 vm.dirty_background_ratio=10", "2026-11-21T10:00:00")
    print_state(AppliedState((item,), "2026-11-21", ("/etc/x",), (LONG,), LONG), console)


def show_predictions(console: Console) -> None:
    model = fit(Runs.of(results()))
    names = ("vm.dirty_background_bytes", "vm.dirty_bytes")
    settings = [Setting(((names[0], 2**40), (names[1], 2**41))), Setting((("vm.dirty_ratio", 9),))]
    pull = {"burst_bytes": 9 * GIB, "dirtyable_bytes": GIB}
    lines = [
        Line("current, kernel default", each, model.predict({"vm.dirty_ratio": 90}, **pull), 3.0)
        for each in settings
    ]
    print_predictions(lines, model, Asked(9 * GIB, GIB), console)


def show_clients(console: Console) -> None:
    print_clients([replace(each, version=None) for each in survey()], console)
    print_clients([replace(each, version="aws-cli/2.15.30 " * 3) for each in survey()], console)


def show_requirements(console: Console) -> None:
    found = CheckResult("Linux 6.18.0-aws, 4 CPUs, " * 4, None, None)
    names = ("root", "btf", "kernel-structures")
    missing = CheckResult("no", f"{LONG}", "run `apt-get install python3-bpfcc`, then try again")
    findings = {**dict.fromkeys(names, found), "bcc": missing}
    print_requirements(findings, {"sweep": ["bcc"], "bench-clients": list(names) * 3}, console)


def show_profile(console: Console, *, is_look: bool) -> None:
    profile = profile_of(Contract(SECOND_NS, (replace(COUNTS, path="/a/path/" * 9),)), 1, 5, 9)
    if is_look:
        print_look(profile, console)
    else:
        console.print(findings_table(profile.findings))
        print_lines(frames_lines(profile), console)
        print_why(explain(profile.why), console)


def show_pull(measured: PullMeasurement, console: Console) -> None:
    stats = measured.snapshot.stats if measured.snapshot else ()
    print_pull(measured, evaluate(CONTRACT, stats), CONTRACT.timeframe_ns, console)


def show_benchmark(console: Console) -> None:
    rows = [row(cell("s3transfer-crt", 2.0, 2.1), cell("mountpoint-s3", 1.0, 1.1))]
    client_bench.print_plan(1, ["s3transfer-crt"] * 9, 4, console)
    client_bench.print_comparison(comparison(*rows), console)


def show_details(name: str, _: Path) -> Show:
    return lambda console: print_details(CASES[name](), console)


REPORTS: dict[str, Callable[[Path], Show]] = {
    "apply": lambda root: partial(show_plan, root, remounts=True),
    "apply without mounts": lambda root: partial(show_plan, root, remounts=False),
    "verify": lambda _: show_compliance,
    "status": lambda _: show_state,
    "predict": lambda _: show_predictions,
    "clients": lambda _: show_clients,
    "doctor": lambda _: show_requirements,
    "look": lambda _: partial(show_profile, is_look=True),
    "profile": lambda _: partial(show_profile, is_look=False),
    "pull": lambda _: partial(show_pull, MEASURED),
    "bench-clients": lambda _: show_benchmark,
    "written": lambda root: (
        lambda console: print_written(
            [Path("/root/90-writewise.conf")], [LONG], [Path("/root/recommendation.json")], console
        )
    ),
    **{f"{name}, details": partial(show_details, name) for name in CASES},
}


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_than_the_terminal(name, width, tmp_path):
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=True, color_system=None, highlight=False
    )
    REPORTS[name](tmp_path)(console)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert lines
    assert [line for line in lines if len(line) > width] == []


@pytest.mark.parametrize("name", REPORTS)
def test_a_pipe_gets_tables_of_80_columns_and_no_escape_codes(name, tmp_path):
    file = io.StringIO()
    REPORTS[name](tmp_path)(plain_console(file))
    assert "\x1b" not in file.getvalue()
    rules = [line for line in file.getvalue().splitlines() if set(line) & set("─┤┴")]
    assert all(len(line.rstrip()) <= FILE_COLUMNS for line in rules)


def test_no_color_gives_no_escape_codes(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(file, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    for value, has_codes in (("1", False), ("", True)):
        monkeypatch.setenv("NO_COLOR", value)
        file.truncate(0)
        print_lines(["bold"], plain_console(file), "bold red")
        assert ("\x1b" in file.getvalue()) is has_codes


def test_a_command_in_backquotes_is_not_broken():
    file = io.StringIO()
    console = Console(file=file, width=40, force_terminal=True, color_system=None)
    print_lines(["to have it, run `apt-get install python3-bpfcc`, then 12.0 GiB"], console)
    lines = file.getvalue().splitlines()
    assert any("`apt-get install python3-bpfcc`" in line for line in lines)
    assert any("12.0 GiB" in line for line in lines)
