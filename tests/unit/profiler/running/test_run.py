# SPDX-License-Identifier: Apache-2.0
"""A command that runs while settings are held: its exit code, its signals, what was at risk."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from contracts.shared.errors import WritewiseError
from profiler.govern.beside import GovernStart
from profiler.recording.command import ENDING
from profiler.report.console import plain_console
from profiler.report.run import (
    GovernedRun,
    RunReport,
    governed_notes,
    governor_words,
    print_run,
    print_start,
    run_document,
    shown_drain,
)
from profiler.running.draining import HoldKeeper
from profiler.running.run import Drained, HeldCommand, Run, run_held
from sysctl.host.governor_state import (
    BurstSums,
    GovernorState,
    StoodDown,
    write_governor_state,
)
from sysctl.host.holders import Holder
from sysctl.host.holding import Hold
from sysctl.host.system import System
from tests.places import REPOSITORY

MIB = 2**20
HOLDER = Holder(7, 1, "boot", "`job`", "2026-11-23T10:00:00+00:00", {"vm.dirty_ratio": "80"})


class FakeHold(Hold):
    """Settings that are not set: another test has them."""

    is_draining = False

    def __init__(self):
        self.presence = None

    def drain(self):
        self.is_draining = True


class CountersHost(System):
    """A host whose counters a command can write."""

    def __init__(self, root):
        super().__init__(root)
        (root / "proc/pressure").mkdir(parents=True)
        self.hold_dirty(5)
        self.put_pressure(1_000_000)

    def hold_dirty(self, mib):
        self.path("/proc/vmstat").write_text(self.vmstat(mib))

    @staticmethod
    def vmstat(mib):
        pages = mib * MIB // os.sysconf("SC_PAGESIZE")
        return (
            f"nr_dirty {pages}\nnr_writeback 0\n"
            "nr_dirty_threshold 9\nnr_dirty_background_threshold 8\n"
        )

    def put_pressure(self, total_us):
        text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n"
        self.path("/proc/pressure/io").write_text(text)


@pytest.fixture
def system(tmp_path):
    return CountersHost(tmp_path)


def spawned(*words):
    return os.posix_spawnp(words[0], words, os.environ)


def at_once():
    return spawned("true")


def run(system, script, sync=at_once, **options):
    options = {"on_progress": lambda _: None, **options}
    hold = FakeHold()
    done = run_held(
        HoldKeeper(hold), HeldCommand(["sh", "-c", script]), system=system, sync=sync, **options
    )
    assert hold.is_draining
    return done


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)])
def test_the_exit_code_is_the_command_s(system, script, code):
    done = run(system, script)
    assert (done.exit_code, done.drained) == (code, Drained.DONE)
    assert 0 < done.return_s <= done.durable_s


@pytest.mark.parametrize(("name", "code"), [("/none", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started(system, name, code):
    with pytest.raises(WritewiseError) as error:
        run_held(
            HoldKeeper(FakeHold()), HeldCommand([name]), lambda _: None, system=system, sync=at_once
        )
    assert error.value.exit_code == code


def replacing(system, vmstat):
    """Return a script that replaces /proc/vmstat whole: a reader never sees an empty file."""
    file = system.path("/proc/vmstat")
    return f"echo '{vmstat}' > {file}.new; mv {file}.new {file}"


def test_what_is_at_risk_is_above_what_was_there(system):
    script = f"{replacing(system, system.vmstat(25))}; sleep 0.3; "
    script += replacing(system, system.vmstat(9))
    seen: list[int] = []
    done = run(system, script, lambda: spawned("sleep", "0.3"), on_progress=seen.append)
    assert done.peak_bytes == 20 * MIB and set(seen) == {4 * MIB}


def test_less_than_at_the_start_is_nothing(system):
    assert run(system, replacing(system, system.vmstat(1))).peak_bytes == 0


def test_waits_for_io_are_those_until_the_return(system):
    file = system.path("/proc/pressure/io")
    script = f"sed -i s/total=1000000/total=1250000/ {file}"
    assert run(system, script).io_wait_s == 0.25
    file.unlink()
    assert run(system, "true").io_wait_s is None


def alone(script, end="exec true"):
    """Run `script`, and `end` in place of sync, in a process without threads of other tests."""
    code = f"from {__name__} import report_of; report_of({script!r}, {end!r})"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=REPOSITORY, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def report_of(script, end):
    for number in ENDING:  # `&` makes a shell ignore SIGINT, `nohup` SIGHUP
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        done = run(CountersHost(Path(folder)), script, lambda: spawned("sh", "-c", end))
    print(json.dumps([done.exit_code, done.drained.name, done.durable_s is None]))


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT"])
def test_a_signal_goes_to_the_command_and_the_data_is_still_written(name):
    script = f"trap 'exit 9' {name}; kill -{name} $PPID; sleep 3 & wait; exit 1"
    assert alone(script, "exec sleep 0.2") == [9, "DONE", False]


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT"])
def test_a_signal_after_the_command_ends_the_wait(name):
    end = f"sleep 0.2; kill -{name} $PPID; exec sleep 20"
    assert alone("exit 3", end) == [3, "SKIPPED", True]


def test_a_signal_just_before_the_end_of_the_command_does_not_end_the_wait():
    assert alone("trap '' TERM; kill -TERM $PPID", "exec sleep 0.05") == [0, "DONE", False]


RUN = Run(0, 6.3, 31.2, Drained.DONE, 1536 * MIB, 0.41)
REPORT = RunReport(
    run=RUN,
    command_user="root (uid 0)",
    before={"vm.dirty_ratio": "20"},
    during={"vm.dirty_ratio": "80"},
    joined=(),
    remaining=(),
    recovered=(),
    restored=("vm.dirty_ratio = 20",),
    left=(),
    notes=(),
)


def printed(report):
    stream = io.StringIO()
    print_run(report, plain_console(stream))
    return stream.getvalue()


def changed(report, **fields):
    return RunReport(**{**vars(report), **fields})


def with_run(**fields):
    return changed(REPORT, run=Run(**{**vars(RUN), **fields}))


def test_the_report():
    assert printed(REPORT) == (
        "command     exit code 0, as root (uid 0)\n"
        "settings    vm.dirty_ratio 20 → 80\n"
        "returned    after 6.30 s\n"
        "durable     after 31.2 s\n"
        "at risk     at most 1.50 GiB was only in memory\n"
        "I/O waits   some program of the host waited for I/O for 410 ms of that\n"
        "restored    vm.dirty_ratio = 20\n"
    )


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (with_run(io_wait_s=None), ""),
        (with_run(durable_s=None, drained=Drained.SKIPPED), "a signal ended the wait"),
        (with_run(durable_s=None, drained=Drained.BEHIND), "by a process that stays behind"),
        (changed(REPORT, before={}, during={}), "all were in force already"),
        (changed(REPORT, joined=(HOLDER,)), "those of process 7: vm.dirty_ratio = 80"),
        (changed(REPORT, remaining=(HOLDER,)), "kept        for run of `job`, process 7 since"),
        (changed(REPORT, left=("x was changed",)), "left        x was changed"),
    ],
)
def test_the_report_of_other_ends(report, line):
    assert line in printed(report)


def test_the_document_is_of_plain_values():
    document = run_document(changed(REPORT, joined=(HOLDER,), remaining=(HOLDER,)))
    assert document["changes"] == [{"name": "vm.dirty_ratio", "before": "20", "during": "80"}]
    assert document["joined"] == [
        {"pid": 7, "command": "`job`", "since": "2026-11-23T10:00:00+00:00"}
    ]
    assert (document["drained"], document["peak_at_risk_bytes"]) == ("done", 1536 * MIB)


STATE = GovernorState(
    pid=9,
    start_ticks=1,
    boot_id="boot",
    purpose="run --auto of `job`",
    since="2026-11-23T10:00:00+00:00",
    written_at="2026-11-23T10:00:30+00:00",
    volumes=("/data",),
    max_at_risk_bytes=2048 * MIB,
    max_raise_s=None,
    at_rest={"vm.dirty_ratio": 20},
    changed_at="2026-11-23T10:00:10+00:00",
    sums=BurstSums(30.0, 1, 1920 * MIB, 6.3, 24.0, 13.4, 0, 1600 * MIB),
)


def governed(state=STATE, followed=None, problem=None, **fields):
    start = GovernStart(["/data"], followed)
    return changed(REPORT, governed=GovernedRun(start, state, problem), **fields)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (governed(), "raised for 1 burst of 1.88 GiB, for 24.0 s; saved about 13.4 s (predicted)"),
        (governed(replace(STATE, sums=BurstSums())), "nothing was raised: no writer would have"),
        (
            governed(None, "govern of /data, process 5"),
            "govern of /data, process 5, governs this host; it accounts for the bursts",
        ),
        (governed(followed="govern of /data, process 5"), "raised for 1 burst of 1.88 GiB"),
        (governed(None), "nothing is known of what it did"),
        (governed(problem="the governor was killed"), "governor    the governor was killed"),
        (
            governed(replace(STATE, stood_down=StoodDown("now", {"a": 1}, {"a": 2}))),
            "stood down at now, because another program changed a = 1 to a = 2",
        ),
        (
            governed(
                replace(STATE, sums=BurstSums(), is_raised=True),
                run=Run(**{**vars(RUN), "drained": Drained.BEHIND}),
            ),
            "raised since 2026-11-23T10:00:10+00:00, until the burst is drained",
        ),
    ],
)
def test_the_report_of_a_governor(report, line):
    said = " ".join(printed(report).split())
    assert " ".join(line.split()) in said and "settings" not in said
    json.dumps(run_document(report))


def test_the_document_of_a_governor():
    document: Any = run_document(governed())["governed"]
    assert (document["volumes"], document["followed"]) == (["/data"], None)
    assert (document["bursts"], document["raised_s"], document["saved_s"]) == (1, 24.0, 13.4)
    assert document["max_at_risk_bytes"] == 2048 * MIB
    assert run_document(REPORT)["governed"] is None


def test_what_is_said_of_the_governor_before_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path))
    (tmp_path / "run").mkdir()
    write_governor_state(STATE)
    assert governed_notes(GovernStart(["/data"]), []) == []
    start = GovernStart(["/data"], counts_every_group=False, left=["x was changed"])
    low = GovernStart(["/data"], low_bound=[13 * 2**30, 2 * 2**30])
    assert governed_notes(low, [])[0].startswith("nothing can be raised: the host's own dirty")
    nothing = GovernedRun(low, replace(STATE, sums=BurstSums()), None)
    assert governor_words(nothing, Drained.DONE) == governed_notes(low, [])[0]
    left, root_only = governed_notes(start, [])
    assert left == "left: x was changed" and "root control group" in root_only
    followed = "run --auto of `job`, process 9"
    lines = governed_notes(GovernStart(["/data", "/scratch"], followed), ["/data", "/scratch"])
    assert lines == [
        f"{followed}, governs this host; this run governs when that governor has ended",
        "it governs /data, at most 2.00 GiB at risk",
        "until then writers onto /scratch wait as they would at rest",
    ]
    other = GovernStart(["/data"], "govern of /data, process 19")
    assert len(governed_notes(other, [])) == 1


def test_what_is_said_before_the_command():
    stream = io.StringIO()
    print_start(["vm.dirty_ratio = 20"], [HOLDER, HOLDER], ["a note"], plain_console(stream))
    first, second, third = stream.getvalue().splitlines()
    assert first == "restored after a killed run: vm.dirty_ratio = 20"
    assert second.startswith("joined run of `job`, process 7 since") and third == "a note"


def test_a_file_gets_one_line_while_data_is_written():
    stream = io.StringIO()
    with shown_drain(plain_console(stream)) as show:
        show(0)
        show(5 * MIB)
        show(4 * MIB)
    line = "the command returned; 5.00 MiB is being written to the device\n"
    assert stream.getvalue() == line


def test_a_terminal_gets_a_bar_and_no_thread():
    stream, before = io.StringIO(), threading.active_count()
    console = Console(file=stream, force_terminal=True, width=100)
    with shown_drain(console) as show:
        show(8 * MIB)
        show(2 * MIB)
        assert threading.active_count() == before
    assert "writing to the device" in stream.getvalue()
    assert "6.0/8.0 MiB" in stream.getvalue()
