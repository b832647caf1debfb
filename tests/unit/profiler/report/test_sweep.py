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
from profiler.report.advice import print_advice
from profiler.report.sweep_view import SweepView, sweep_bar
from sysctl.advice.advise import advise
from sysctl.evidence.results import CANDIDATE, PRICE, LeftOut, Results, Trial, by_reason
from sysctl.knobs.setting import Setting
from sysctl.sweep.steps import Step
from tests.unit.sweeps import CIRCUMSTANCES, PRESENT, sweep

SETTING = Setting((("vm.dirty_ratio", 40), ("vm.dirty_background_ratio", 5)), "noatime,nodiratime")
HALF = Progress(bytes=50, objects=30, total_bytes=100, total_objects=40, elapsed_s=1.0)


class Shown:
    """A view on a terminal or a file, with its clock, its lines and its moving line."""

    def __init__(self, terminal: bool = True) -> None:
        self.now_s = 0.0
        self.file = io.StringIO()
        self.console = Console(file=self.file, width=80, force_terminal=terminal, color_system=None)
        self.bar = sweep_bar(self.console)
        self.view = SweepView(self.console, self.bar, lambda: self.now_s)

    def try_for(self, seconds: float, remaining: int, setting: Setting = SETTING) -> None:
        self.view.step(Step(CANDIDATE, setting, durable=False, remaining=remaining))
        self.now_s += seconds
        self.view.trial(Trial(CANDIDATE, setting, "", None, "made up"))

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
    assert (task.total, task.fields["setting"]) == (None, str(SETTING))


@pytest.mark.parametrize("phase", list(Phase))
def test_time_left_and_progress_fit_80_columns(phase):
    shown = Shown()
    shown.try_for(65, remaining=15)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=14))
    shown.view.phase(phase, None if phase is Phase.SYNC else HALF)
    (line,) = shown.frame().splitlines()
    assert "trial 2/16 · 16 min 15 s left · " + phase.value in line
    assert "dirty_" in line
    assert "…" in line
    assert phase is Phase.SYNC or "30/40" in line


def test_time_left_runs_down_within_a_trial_and_is_not_shown_once_overdue():
    shown = Shown()
    shown.try_for(10, remaining=1)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=0))
    shown.now_s += 4
    shown.view.doing("settling")
    assert "trial 2/2 · 6.00 s left · settling" in shown.frame()
    shown.now_s += 7
    shown.view.doing("settling")
    assert "left" not in shown.frame()


def test_a_resumed_sweep_counts_on_but_times_only_its_own_trials():
    shown = Shown(terminal=False)
    done = [Trial(CANDIDATE, SETTING, "", None, "made up")] * 4
    shown.view.planned(Results(CIRCUMSTANCES, {}, [], done), 1)
    shown.try_for(10, remaining=7)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=6))
    text = shown.file.getvalue()
    assert "about 1 trial" in text
    assert "trial 5 of 12: dirty_ratio=40" in text
    assert "trial 6 of 12: dirty_ratio=40" in text
    assert "about 1 min 10 s left" in text


def test_a_trial_that_was_stopped_is_no_failure():
    shown = Shown()
    shown.view.trial(Trial(CANDIDATE, SETTING, "", None, stopped_s=5.4))
    assert ">  5.4 s  dirty_ratio=40" in shown.file.getvalue()
    assert "stopped: it can no longer win" in shown.file.getvalue()


def test_an_invalid_trial_tells_its_reason_and_a_setting_left_out_too():
    shown = Shown()
    shown.view.trial(Trial(CANDIDATE, SETTING, "", sweep().trials[0].observation, "memory moved"))
    shown.view.left_out(LeftOut("queue/read_ahead_kb", "nothing was read"))
    lines = shown.file.getvalue().splitlines()
    assert lines[0].startswith("invalid: dirty_ratio=40")
    assert lines[0].endswith("memory moved")
    assert lines[1] == "left out: queue/read_ahead_kb: nothing was read"


def test_a_trial_tells_the_stalled_share():
    shown = Shown()
    shown.view.trial(sweep().trials[0])
    assert "stalled 83%" in shown.file.getvalue()


def test_a_run_watched_for_its_price_says_what_it_waits_for_and_when_that_was():
    shown = Shown(terminal=False)
    first, second = sweep().trials[:2]
    for trial in (first, second):
        step = Step(trial.role, trial.setting, durable=trial.role == PRICE, remaining=0)
        shown.view.step(step)
        shown.view.trial(trial)
    lines = shown.file.getvalue().splitlines()
    assert lines[0] == "trial 1 of 1: until durable: dirty_ratio=20 dirty_background_ratio=10"
    assert lines[1].startswith("  19.1 s  until durable: dirty_ratio=20")
    assert " dirty · durable 31.5 s" in lines[1]
    assert lines[2].startswith("trial 2 of 2: present (dirty_ratio=20")
    assert "durable" not in lines[3]


def test_the_time_left_is_without_the_wait_for_the_device():
    shown = Shown(terminal=False)
    (trial,) = sweep(lambda setting, run: 20.0, at_most=1).trials
    shown.view.step(Step(PRICE, PRESENT, durable=True, remaining=10))
    shown.now_s += trial.valid.durable_s
    shown.view.trial(trial)
    shown.view.step(Step(CANDIDATE, SETTING, durable=False, remaining=9))
    assert "about 3 min 20 s left" in shown.file.getvalue()


def printed_advice(recommendation) -> str:
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as captured:
        print_advice(recommendation, console)
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


@pytest.mark.parametrize(("seconds", "is_told"), [(None, True), (5.0, False)])
def test_writing_down_is_named_only_for_a_change(seconds, is_told, monkeypatch, tmp_path, capsys):
    results = sweep() if seconds is None else sweep(lambda setting, run: seconds)
    monkeypatch.setattr(profiler.study.study, "run_study", lambda request, view: results)
    monkeypatch.setattr("profiler.requirements.require", lambda *needs: None)
    monkeypatch.setattr(sweep_command, "terminable", contextlib.nullcontext)
    parser = argparse.ArgumentParser()
    sweep_command.add_arguments(parser)
    assert sweep_command.run(parser.parse_args(["s3://bucket/images", str(tmp_path)])) == 0
    assert ("write it down" in capsys.readouterr().out) is is_told
    assert results.trials[0].setting == PRESENT


def test_what_is_left_out_for_one_reason_is_told_together():
    items = [LeftOut(f"setting {n}", "it is halved") for n in range(4)] + [LeftOut("x", "no such")]
    told = [(item.what, item.why) for item in by_reason(items)]
    assert told == [("setting 0 and 3 more", "it is halved"), ("x", "no such")]
