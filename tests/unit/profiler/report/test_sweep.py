# SPDX-License-Identifier: Apache-2.0
"""What a sweep and its recommendation show, from made-up trials and a clock set by hand."""

from __future__ import annotations

import argparse
import contextlib
import io
from dataclasses import replace

import pytest
from rich.console import Console

import profiler.study.study
from profiler.cli import sweep as sweep_command
from profiler.pull.measured import Phase
from profiler.pull.result import Progress
from profiler.report.advice import print_details
from profiler.report.sweep_view import SweepView, changed_words, sweep_bar
from sysctl.advice.advise import advise
from sysctl.evidence.baseline import Baseline
from sysctl.evidence.results import CANDIDATE, PRICE, LeftOut, Results, Trial, by_reason
from sysctl.knobs.setting import Setting
from sysctl.sweep.steps import Step
from tests.unit.sweeps import CIRCUMSTANCES, GIB, PRESENT, sweep

SETTING = Setting((("vm.dirty_ratio", 40), ("vm.dirty_background_ratio", 5)), "noatime,nodiratime")
HALF = Progress(bytes=50, objects=30, total_bytes=100, total_objects=40, elapsed_s=1.0)


class Shown:
    """A view on a terminal or a file, with its clock, its lines and its moving line."""

    def __init__(self, terminal: bool = True, width: int = 80, done: int = 1) -> None:
        self.now_s = 0.0
        self.file = io.StringIO()
        self.console = Console(
            file=self.file, width=width, force_terminal=terminal, color_system=None
        )
        self.bar = sweep_bar(self.console)
        self.view = SweepView(self.console, self.bar, lambda: self.now_s)
        trials = [Trial(PRICE, PRESENT, "", None, "made up")] * done
        self.view.planned(Results(CIRCUMSTANCES, {}, [], trials), 1)
        self.shown_before = len(self.file.getvalue())

    def try_for(self, seconds: float, remaining: int, setting: Setting = SETTING) -> None:
        self.view.step(Step(CANDIDATE, setting, durable=False, remaining=remaining))
        self.now_s += seconds
        self.view.trial(Trial(CANDIDATE, setting, "", None, "made up"))

    def lines(self) -> list[str]:
        """What was printed after the heading."""
        return self.file.getvalue()[self.shown_before :].splitlines()

    def frame(self) -> str:
        console = Console(file=io.StringIO(), width=80, color_system=None)
        with console.capture() as captured:
            console.print(self.bar.get_renderable())
        return captured.get()


def test_a_phase_without_a_measure_pulses_after_one_with_it():
    shown = Shown()
    shown.try_for(65, remaining=15)
    shown.view.phase(Phase.PULL, HALF)
    assert [task.total for task in shown.bar.tasks] == [100]
    shown.view.phase(Phase.SYNC, None)
    (task,) = shown.bar.tasks
    words = "dirty_ratio=40 dirty_background_ratio=5 mount=noatime,nodiratime"
    assert (task.total, task.fields["setting"]) == (None, words)


@pytest.mark.parametrize("phase", list(Phase))
def test_time_left_and_progress_fit_80_columns(phase):
    shown = Shown()
    shown.try_for(65, remaining=15)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=14))
    shown.view.phase(phase, None if phase is Phase.SYNC else HALF)
    (line,) = shown.frame().splitlines()
    assert "trial 3 · about 16 min 15 s left · " + phase.value in line
    assert "dirty_" in line
    assert "…" in line
    assert phase is Phase.SYNC or "30/40" in line


def test_time_left_runs_down_within_a_trial_and_is_not_shown_once_overdue():
    shown = Shown()
    shown.try_for(10, remaining=1)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=0))
    shown.now_s += 4
    shown.view.doing("settling")
    assert "trial 3 · about 6.00 s left · settling" in shown.frame()
    shown.now_s += 7
    shown.view.doing("settling")
    assert "left" not in shown.frame()


def test_a_resumed_sweep_counts_on_but_times_only_its_own_trials():
    shown = Shown(done=4)
    assert "About 1 trial:" in shown.file.getvalue()
    shown.try_for(10, remaining=7)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=6))
    assert "trial 6 · about 1 min 10 s left" in shown.frame()
    assert shown.lines()[0].startswith("    5  invalid: dirty_ratio=40")


def test_the_number_of_trials_to_come_may_change_and_no_total_jumps():
    shown = Shown()
    for remaining in (11, 14, 9):
        shown.try_for(10, remaining=remaining)
        assert "/" not in shown.frame().partition("left")[0]


def test_a_stopped_trial_is_not_a_failure():
    shown = Shown()
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=1))
    shown.view.trial(Trial(CANDIDATE, SETTING, "", None, stopped_s=5.4))
    (line,) = shown.lines()
    assert line.startswith("    2  > 5.40 s   stopped: too slow  dirty_ratio=40 dirty_")


def test_an_invalid_trial_shows_its_reason():
    shown = Shown(width=120)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=1))
    shown.view.trial(Trial(CANDIDATE, SETTING, "", sweep().trials[0].observation, "memory moved"))
    (line,) = shown.lines()
    assert line.startswith("    2  invalid: dirty_ratio=40")
    assert line.endswith("memory moved")


@pytest.mark.parametrize("terminal", [True, False])
def test_every_trial_of_a_sweep_takes_one_line_of_80_columns(terminal):
    shown = Shown(terminal=terminal, done=0)
    trials = sweep(mount_options=["noatime"]).trials
    for trial in trials:
        shown.view.step(Step(trial.role, trial.setting, durable=False, remaining=3))
        shown.view.trial(trial)
    lines = shown.lines()
    assert len(lines) == len(trials)
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines] == [str(n + 1) for n in range(len(trials))]


def test_the_columns_are_time_wait_peak_and_what_changes():
    shown = Shown(terminal=False, done=0)
    first, second = sweep().trials[:2]
    for trial in (first, second):
        step = Step(trial.role, trial.setting, durable=trial.role == PRICE, remaining=0)
        shown.view.step(step)
        shown.view.trial(trial)
    head = shown.file.getvalue().splitlines()[1]
    lines = shown.lines()
    assert head.split() == ["trial", "return", "waited", "peak", "dirty", "settings"]
    assert (
        lines[0] == "    1    19.1 s     83%    1.70 GiB  cost: current settings · durable 31.5 s"
    )
    assert lines[1] == "    2    19.1 s     83%    1.70 GiB  current settings"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (Setting((("vm.dirty_ratio", 20), ("vm.dirty_background_ratio", 10))), []),
        (Setting((("vm.dirty_ratio", 20), ("vm.dirty_background_bytes", GIB))), ["=1GiB"]),
        (Setting((), "noatime", (("queue/scheduler", "none"),)), ["queue/scheduler=none", "mount"]),
        (Setting((), "relatime"), []),
    ],
)
def test_a_trial_names_what_it_changes_of_the_current_settings(setting, words):
    found = changed_words(setting, Baseline(PRESENT, ("relatime",)))
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found))


def test_the_time_left_is_without_the_wait_for_the_device():
    shown = Shown()
    (trial,) = sweep(lambda setting, run: 20.0, at_most=1).trials
    shown.view.step(Step(PRICE, PRESENT, durable=True, remaining=10))
    shown.now_s += trial.valid.durable_s
    shown.view.trial(trial)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=9))
    assert "about 3 min 20 s left" in shown.frame()


def printed_advice(recommendation) -> str:
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as captured:
        print_details(recommendation, console)
    return captured.get()


@pytest.mark.parametrize(("mount_options", "is_shown"), [("", False), ("noatime", True)])
def test_only_a_changed_mount_is_shown(mount_options, is_shown):
    found = advise(sweep())
    best = replace(found.best, setting=replace(found.best.setting, mount_options=mount_options))
    text = printed_advice(replace(found, best=best))
    assert ("mount=" in text) is is_shown
    assert "dirty_background_ratio=10" in text
    assert "83%" in text
    assert "…" not in text


@pytest.mark.parametrize(
    ("seconds", "next_line"),
    [(None, "apply {}/writewise-results.json"), (5.0, "transfer tune s3://bucket/images /data")],
)
def test_the_command_ends_with_what_to_do_next(seconds, next_line, monkeypatch, tmp_path, capsys):
    results = sweep() if seconds is None else sweep(lambda setting, run: 3.3)
    monkeypatch.setattr(profiler.study.study, "run_study", lambda request, view: results)
    monkeypatch.setattr("profiler.requirements.require", lambda *needs: None)
    monkeypatch.setattr(sweep_command, "terminable", contextlib.nullcontext)
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    sweep_command.add_arguments(parser)
    assert sweep_command.run(parser.parse_args(["s3://bucket/images", str(tmp_path)])) == 0
    text = capsys.readouterr().out
    last = text[text.index("Next: ") :].splitlines()[0]
    assert last.endswith(next_line.format(tmp_path))
    assert last.startswith("Next: sudo ") is (seconds is None)
    assert results.trials[0].setting == PRESENT


def test_items_left_out_for_one_reason_are_reported_together():
    items = [LeftOut(f"setting {n}", "it is halved") for n in range(4)] + [LeftOut("x", "no such")]
    grouped = [(item.what, item.why) for item in by_reason(items)]
    assert grouped == [("setting 0 and 3 more", "it is halved"), ("x", "no such")]
