# SPDX-License-Identifier: Apache-2.0
"""The advice on one screen: at most 40 lines of 80 columns, for each thing a sweep may come to."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from profiler.report.advice import print_advice
from profiler.report.conclusions import note_texts
from profiler.report.next_steps import next_steps, print_next
from profiler.report.written import print_written
from sysctl.advice.advise import advise
from sysctl.advice.conclusions import Case
from sysctl.evidence.price import Limits
from sysctl.evidence.results import LeftOut
from sysctl.knobs.setting import Setting
from tests.unit.studies import MIB, Study, course, ratio
from tests.unit.sweeps import GIB, sweep

RESULTS = Path("/root/writewise-results.json")
GROUP = ["This process is in the control group /pod with a memory limit of 2.00 GiB. " * 2] * 2
SAMPLE = {"bytes": GIB // 4, "objects": 20, "whole_bytes": 100 * GIB, "whole_objects": 8000}


def change():
    """Like the demo's, with a predicted time to durable."""
    trace = course(0.05, 600 * MIB, 60 * MIB, 614 * MIB, 15.0)
    study = Study(durable_s=31.0, trace=trace)
    study.present = {"trace": trace}
    return advise(study.tried(ratio(80), 4.0, peak_dirty_bytes=2 * GIB).results)


def many_changes():
    setting = Setting(ratio(80).sysctls, "noatime", (("queue/scheduler", "none"),))
    results = Study(context=SAMPLE).credited(setting, 4.0).results
    results.left_out += [LeftOut(f"knob {n}", f"reason {n} " * 8) for n in range(9)]
    return advise(results, Limits(3 * GIB))


def transfer_change():
    present = Setting((), transfer=(("max_concurrency", 10),))
    study = Study(present_s=())
    for _ in range(2):
        study.add("present", present, 20.0, stall_share=None)
    tuned = Setting((), transfer=(("max_concurrency", 40),))
    study.candidate(tuned, 10.0, stall_share=None)
    for pair in range(4):
        study.add("present", present, 20.0, pair, stall_share=None)
        study.add("recheck", tuned, 10.0, pair, stall_share=None)
    return advise(study.results)


CASES = {
    "change": change,
    "many changes": many_changes,
    "of a sweep": lambda: advise(sweep()),
    "of the pull": transfer_change,
    "unfinished": lambda: advise(Study().results),
    "nothing to gain": lambda: advise(Study(stall_share=0.0).candidate(ratio(80), 20.0).results),
    "small sample": lambda: advise(Study(context=SAMPLE, stall_share=0.0).results),
    "no gain": lambda: advise(Study().tried(ratio(80), 19.9).results),
    "other endpoint": lambda: advise(
        Study(context={"endpoint_url": "http://[::1]:80"}).tried(ratio(80), 19.9).results
    ),
    "noise": lambda: advise(Study((20.0, 30.0, 12.0)).candidate(ratio(80), 20.0).results),
    "over the limits": lambda: advise(Study().tried(ratio(80), 4.0).results, Limits(GIB // 4)),
}


def printed(recommendation, width=80, lines=(), *, terminal=True):
    """All that a command prints at its end, with the files that advise writes by default."""
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None)
    print_advice(recommendation, console, lines)
    names = ("90-writewise.conf", "90-writewise-bytes.conf", "recommendation.json")
    written = [Path("/root") / name for name in names] if recommendation.best else []
    print_written(written, (), (), console)
    print_next(next_steps(recommendation, RESULTS, written), console)
    return file.getvalue()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_fits_one_screen(name, width):
    lines = printed(CASES[name](), width).splitlines()
    assert len(lines) <= 42
    wide = [line for line in lines if len(line) > width]
    assert not [line for line in wide if "writewise " not in line], wide  # a command stays whole


@pytest.mark.parametrize("name", CASES)
def test_it_has_every_part_and_the_next_command(name):
    recommendation = CASES[name]()
    text = printed(recommendation)
    is_change = recommendation.best is not None
    assert text.startswith("Recommended: " if is_change else "No change recommended: ")

    for part in ("\nWhy: ", "\nCost      ", "\nNext: "):
        assert text.count(part) == 1
    for part in ("\nSettings  ", "\nGain      "):
        assert (part in text) is is_change


def test_a_change_is_one_sentence_with_its_reason_gain_and_cost():
    text = " ".join(printed(advise(sweep()), width=200).split())
    for words in (
        "Recommended: set vm.dirty_ratio to 80; the pull then returns in 3.42 s instead of 19.2 s.",
        "Why: writers waited 83% of their time, because the kernel throttles them above 614 MiB",
        "vm.dirty_ratio = 80 (now 20)",
        "vm.dirty_background_ratio = 10 (unchanged)",
        "Gain 5.6× faster (95% interval",
        "Cost moderate risk: 1.70 GiB at risk is 42% of the memory that may be dirty",
        "It is lost if the instance is terminated, the kernel panics or the host fails",
        "apply /root/recommendation.json",
    ):
        assert words in text


def test_the_label_of_the_risk_is_always_named():
    for name, make in CASES.items():
        recommendation = make()
        rating = (recommendation.price or recommendation.present_price).rating
        assert rating is None or f"{rating.label.value} risk" in printed(recommendation), name


def test_the_figures_of_both_sides_are_next_to_each_other():
    rows = [line.split("  ") for line in printed(advise(sweep())).splitlines()]
    cells = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows if row}
    assert cells["time to return"] == ["19.2 s", "3.42 s"]
    assert cells["writers waited"] == ["83%", "3%"]
    assert cells["bytes at risk, at most"] == ["1.70 GiB", "1.70 GiB"]


@pytest.mark.parametrize(
    ("name", "next_line"),
    [
        ("change", "sudo {} apply /root/recommendation.json"),
        ("unfinished", "sudo {} sweep s3://bucket/images /data --output {r} --resume"),
        ("nothing to gain", "{} transfer tune s3://bucket/images /data"),
        (
            "small sample",
            "sudo {} sweep s3://bucket/images /data --max-bytes 2GiB"
            " --output /root/writewise-results-again.json",
        ),
        ("no gain", "sudo {} pull s3://bucket/images /data"),
        (
            "other endpoint",
            "sudo {} pull s3://bucket/images /data --endpoint-url 'http://[::1]:80'",
        ),
        ("over the limits", "{} advise {r} --max-at-risk SIZE"),
    ],
)
def test_what_to_do_next_depends_on_what_was_found(name, next_line, monkeypatch):
    monkeypatch.setattr("profiler.report.next_steps.program", lambda: "writewise")
    text = printed(CASES[name]())
    (line,) = (line for line in text.splitlines() if line.startswith("Next: "))
    assert line == "Next: " + next_line.format("writewise", r=RESULTS)


@pytest.mark.parametrize("name", CASES)
def test_the_next_steps_name_the_details_only_where_they_are_not_printed(name):
    short = next_steps(CASES[name](), RESULTS)
    assert "--details" in short[-1].command
    assert next_steps(CASES[name](), RESULTS, has_details=True) == short[:-1]


def test_thresholds_need_not_stand_all_day(monkeypatch):
    monkeypatch.setattr("profiler.report.next_steps.program", lambda: "writewise")
    text = printed(CASES["change"]())
    commands = [line.strip() for line in text.splitlines() if line.startswith("      sudo ")]
    assert commands == [
        "sudo writewise run --auto --on /data --max-at-risk 2GiB -- COMMAND",
        "sudo writewise govern /data --max-at-risk 2GiB",
    ]
    assert "Without a standing risk, during pulls:" in " ".join(text.split())
    for other in ("of the pull", "no gain", "noise"):
        assert "--auto" not in printed(CASES[other]())


def test_settings_of_the_pull_are_not_for_apply():
    recommendation = transfer_change()
    assert recommendation.case is Case.CHANGE
    assert " apply " not in printed(recommendation)
    written = [Path("/root/90-writewise.transfer.json")]
    (step, _) = next_steps(recommendation, RESULTS, written)
    assert step.command.endswith("--transfer /root/90-writewise.transfer.json")
    assert not step.command.startswith("sudo")


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (GIB // 4, "the sample fits below the 614 MiB from which the kernel slows writers down"),
        (2 * GIB, "a pull of all writes 50.0 times as much"),
    ],
)
def test_the_advice_says_what_a_sample_cannot_show(size_bytes, words):
    context = {**SAMPLE, "bytes": size_bytes}
    study = Study(context=context, stall_share=0.0).candidate(ratio(80), 20.0)
    (note,) = note_texts(advise(study.results))
    assert "of 100 GiB (20 objects of 8,000)." in note
    assert words in note[:1].lower() + note[1:].replace("The sample", "the sample")


def test_a_whole_pull_does_not_mention_samples():
    assert "sample" not in printed(CASES["change"]())


def test_a_groups_limit_takes_two_lines():
    assert "memory limit of 2.00 GiB" in " ".join(printed(change(), lines=GROUP).split())
