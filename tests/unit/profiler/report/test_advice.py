# SPDX-License-Identifier: Apache-2.0
"""What the recommendation looks like: 80 columns, without colour, in ASCII, as JSON."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
from typing import Any

import pytest
from rich.console import Console

from contracts.shared.errors import UsageError
from profiler.cli import advise as advise_command
from profiler.cli import sweep as sweep_command
from profiler.cli.main import main
from profiler.report.advice import print_details
from profiler.report.advice_document import advice_document
from profiler.report.tradeoff import letter, plot, print_trade_off
from sysctl.advice.advise import advise
from sysctl.advice.tradeoff import Point
from sysctl.evidence.price import Limits
from sysctl.knobs.setting import Setting
from sysctl.render.formats import FORMATS
from tests.unit.studies import MIB, Study, course, ratio
from tests.unit.sweeps import GIB


def printed(recommendation, width=80, encoding="utf-8", lines=()):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="")
    print_details(recommendation, Console(file=file, width=width), lines)
    file.flush()
    return raw.getvalue().decode(encoding)


def predictable():
    trace = course(0.05, 600 * MIB, 60 * MIB, 614 * MIB, 15.0)
    study = Study(durable_s=31.0, trace=trace)
    study.present = {"trace": trace}
    return advise(study.tried(ratio(80), 4.0, peak_dirty_bytes=2 * GIB).results)


def test_the_report_has_the_verdict_the_price_the_points_and_the_reasons():
    text = printed(predictable(), lines=["a group governs"])
    for words in (
        "5.0× faster (95% interval",
        "Noise: times under the same settings vary by 0.4% (standard deviation).",
        "The risk is moderate: 2.00 GiB at risk is 50% of the memory that may be dirty; a larger "
        "pull could make 80% of the memory dirty.",
        "lost in a spot interruption or termination without a clean shutdown, in a kernel panic",
        "Measured: 40 objects, 1.88 GiB, from s3://bucket/images to /data (xfs), on node-1 (Linux",
        "case study 30/20",
        "predicted",
        "bytes at risk",
        "set       vm.dirty_ratio = 80 (before: 20)",
        "revert if what is written cannot be fetched again",
        "as bytes  vm.dirty_bytes=3435974656",
        "Bytes suit a fleet of nodes with different memory",
        "a group governs",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("present_s", "line", "noise"),
    [
        (
            (20.0, 21.0),
            "times under the same settings vary by 3.4% (standard deviation).",
            0.034,
        ),
        ((20.0,), "unknown, since too few runs were repeated.", None),
    ],
)
def test_the_noise_is_reported_where_it_is_known(present_s, line, noise):
    recommendation = advise(Study(present_s).candidate(ratio(80), 20.0).results)
    assert f"\nNoise: {line}\n" in printed(recommendation, width=200)
    noise_shown = advice_document(recommendation)["noise"]
    assert noise_shown == (noise if noise is None else pytest.approx(noise, abs=0.001))


def test_a_predicted_time_to_durable_is_marked_as_predicted():
    text = printed(predictable())
    document: Any = advice_document(predictable())
    row = next(line for line in text.splitlines() if line.startswith("time to durable"))
    assert row.split("  ")[-1].strip() == "30.7 s predicted"
    assert "All data is on the device after 30.7 s predicted (31.0 s under the current" in text
    assert "Data of the pull is at risk for 26.6 s after the return." in text
    assert document["recommended"]["durable_is_predicted"] is True
    assert document["present"]["durable_is_predicted"] is False


def test_limits_are_reported_and_whether_the_current_settings_keep_them():
    results = Study().tried(ratio(80), 4.0, peak_dirty_bytes=GIB // 2).results
    text = printed(advise(results, Limits(GIB * 3 // 4)))
    assert (
        "Your limits: at most 768 MiB at risk; the current settings exceed them: 1.00 GiB at "
        "risk, more than 768 MiB." in text
    )
    assert "Your limits: at most 2.00 GiB at risk." in printed(advise(results, Limits(2 * GIB)))
    assert "Your limits" not in printed(advise(results))


def test_other_settings_measured_in_pairs_are_reported():
    study = Study().tried(ratio(80), 4.0).tried(ratio(60), 6.0).tried(ratio(85), 4.0)
    text = printed(advise(study.results))
    assert "dirty_ratio=60 dirty_background_ratio=5 took 30.1% of the current time" in text
    assert text.count("Also measured in pairs") == 2
    assert "3 pairs), not as fast." in text
    assert "3 pairs), as fast, but not less risky." in text


def on_terminal(recommendation, width):
    file = io.StringIO()
    print_details(
        recommendation, Console(file=file, width=width, force_terminal=True, no_color=True)
    )
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_lines_are_broken_between_words_and_hang(width):
    lines = on_terminal(predictable(), width)
    long_words = [line for line in lines if len(line.rstrip()) > width]
    assert all(len(line.split()) == 1 for line in long_words)
    at = next(i for i, line in enumerate(lines) if "revert if what is written" in line)
    assert width > 100 or lines[at + 1].startswith(" " * 10)
    whole = " ".join(" ".join(lines).split())
    assert " ".join(printed(predictable(), width).partition("set  ")[2].split()) in whole


@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_and_plot_keep_to_the_width(width):
    text = printed(predictable(), width)
    drawn = [line for line in text.splitlines() if set(line) & set("│┤┬─")]
    assert len(drawn) > 10
    assert max(len(line.rstrip()) for line in drawn) <= width
    assert "…" not in text


def test_no_colour_without_a_terminal():
    assert "\x1b" not in printed(predictable())


def test_the_plot_needs_no_more_than_ascii():
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), width=80)
    assert console.options.ascii_only
    recommendation = predictable()
    with console.capture() as captured:
        print_trade_off(recommendation.trade_off, recommendation.analysis.runs.baseline, console)
    drawn = captured.get().partition("21.0 s")[2].partition("time to return")[0]
    assert drawn.isascii()
    assert "+" in drawn


def point(return_s, at_risk_bytes, *names, runs=1):
    return Point(Setting(()), names, return_s, at_risk_bytes, None, runs)


def test_every_letter_is_where_its_point_is():
    points = [
        point(20.0, 0, "current"),
        point(10.0, GIB, "case study 30/20", runs=0),
        point(1.0, 2 * GIB, "recommended"),
        point(15.0, GIB // 2),
    ]
    lines = plot(points, 80).splitlines()
    found = {
        mark: (lines.index(line), line.index(mark, 7))
        for mark in "CsR·"
        for line in lines[:-2]
        if mark in line[7:]
    }
    assert [mark for mark, _ in sorted(found.items(), key=lambda at: at[1][0])] == list("C·sR")
    assert [mark for mark, _ in sorted(found.items(), key=lambda at: at[1][1])] == list("C·sR")


def test_the_recommended_point_covers_others_and_predictions_are_small():
    same = [point(5.0, GIB, "recommended"), point(5.0, GIB), point(5.0, GIB, "kernel default")]
    drawn = "".join(line[6:] for line in plot(same, 60).splitlines()[:-2])
    assert "R" in drawn
    assert "D" not in drawn
    assert letter(point(1.0, 1, "current", "kernel default")) == "C"
    assert letter(point(1.0, 1, "kernel default", runs=0)) == "d"


@pytest.mark.parametrize("recommendation", [predictable, lambda: advise(Study().results)])
def test_the_document_is_json_and_says_what_is_measured(recommendation):
    found = recommendation()
    document = json.loads(json.dumps(advice_document(found, ["a group"]), allow_nan=False))
    assert document["change_recommended"] == (found.best is not None)
    assert document["case"] == found.case.value
    assert document["memory_group"] == ["a group"]
    for item in document["trade_off"]:
        assert item["is_measured"] == (item["runs"] > 0)
    if found.best is None:
        assert document["time_ratio"] is document["recommended"] is None
    else:
        assert document["time_ratio"]["low"] <= document["time_ratio"]["estimate"]
        assert {form["kind"] for form in document["forms"]} == {"ratio", "bytes"}


def run_command(tmp_path, *options):
    results = Study().tried(ratio(80), 4.0, peak_dirty_bytes=2 * GIB).results
    results.save(tmp_path / "results.json")
    parser = argparse.ArgumentParser()
    advise_command.add_arguments(parser)
    words = [str(tmp_path / "results.json"), "--output-dir", str(tmp_path / "out"), *options]
    return advise_command.run(parser.parse_args(words))


def test_the_command_writes_both_forms_and_what_apply_takes(tmp_path, capsys):
    assert run_command(tmp_path) == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["90-writewise-bytes.conf", "90-writewise.conf", "recommendation.json"]
    printed = capsys.readouterr().out
    assert f"wrote {tmp_path}/out/90-writewise-bytes.conf" in printed
    assert "not written" not in printed


def test_the_command_writes_the_formats_asked_for_and_says_what_it_could_not(tmp_path, capsys):
    assert run_command(tmp_path, "--format", "ssm,fstab") == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["90-writewise.ssm.json", "recommendation.json"]
    assert "not written: fstab: contains no change it can express" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"mount_policy": ["suid", "dev", "x-systemd.makefs", "helper=evil", "user"]}, "noatime"),
        ({"mount_policy": ["loop=/dev/loop0"]}, "noatime"),
        ({}, "noatime,suid,x-mount.mkdir,user,bind"),
        ({"mount_target": "/data\n[Service]\nExecStart=/x", "device": "/dev/x\nfoo"}, "noatime"),
        ({"mount_target": "/etc", "device": "/tmp/evil.img"}, "noatime"),
    ],
)
def test_nothing_is_written_for_results_that_apply_would_refuse(context, words, tmp_path):
    study = Study(context=context).credited(ratio(80, mount_options=words), 4.0)
    with pytest.raises(UsageError, match="nothing was written"):
        advised(tmp_path, study.results, "--format=all")
    assert not (tmp_path / "out").exists()


def test_an_unknown_format_is_reported_with_the_known_ones(tmp_path, capsys):
    words = ["advise", str(tmp_path / "results.json"), "--format", "ssm,yaml\x1b[2J"]
    assert main(words) == UsageError.exit_code
    errors = capsys.readouterr().err
    assert "unknown format 'yaml" in errors and "use sysctl.d, fstab, systemd, udev" in errors
    assert "\x1b" not in errors


@pytest.mark.parametrize(
    ("limit", "is_changed"), [("--max-at-risk=3GiB", True), ("--max-at-risk=1GiB", False)]
)
def test_the_commands_limits_reach_the_advice(limit, is_changed, tmp_path, capsys):
    assert run_command(tmp_path, "--json", limit) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["change_recommended"] is is_changed
    assert (tmp_path / "out").exists() is is_changed


def advised(tmp_path, results, *options):
    """Run the command on `results`; the names of the files that are in its folder afterwards."""
    results.save(tmp_path / "results.json")
    parser = argparse.ArgumentParser()
    advise_command.add_arguments(parser)
    folder = tmp_path / "out"
    words = [str(tmp_path / "results.json"), "--output-dir", str(folder), *options]
    assert advise_command.run(parser.parse_args(words)) == 0
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def in_bytes(dirty, background):
    return Setting((("vm.dirty_bytes", dirty), ("vm.dirty_background_bytes", background)))


def test_files_of_an_earlier_advice_do_not_stay_beside_those_of_another(tmp_path, capsys):
    as_ratio = Study().tried(in_bytes(GIB, GIB // 4), 10.0).results
    names = ["90-writewise-ratio.conf", "90-writewise.conf", "recommendation.json"]
    assert advised(tmp_path, as_ratio) == names
    capsys.readouterr()
    assert advised(tmp_path, Study().tried(in_bytes(9 * GIB, GIB), 10.0).results) == names[1:]
    said = capsys.readouterr().out
    assert (
        f"removed {tmp_path}/out/90-writewise-ratio.conf (of an earlier advice that differs)"
        in said
    )
    assert advised(tmp_path, Study().candidate(ratio(80), 20.0).results) == []
    assert capsys.readouterr().out.count("\nremoved ") == 2
    assert advised(tmp_path, as_ratio, "--json") == names
    json.loads(capsys.readouterr().out)


def test_other_formats_go_with_another_advice_and_stay_with_the_same(tmp_path):
    results = Study().tried(ratio(80), 4.0).results
    everywhere = advised(tmp_path, results, "--format=all")
    assert len(everywhere) == 10
    assert advised(tmp_path, results, "--format=ansible") == everywhere
    other = Study().tried(ratio(60), 4.0).results
    names = ["90-writewise.ansible-undo.yaml", "90-writewise.ansible.yaml", "recommendation.json"]
    assert advised(tmp_path, other, "--format=ansible") == names


def _link(path):
    path.symlink_to(path.parent.parent / "results.json")


@pytest.mark.parametrize(
    ("name", "put"),
    [
        ("90-writewise.conf", lambda path: path.write_text("vm.dirty_ratio = 10\n")),
        ("90-writewise.conf", lambda path: path.write_text("")),
        ("90-writewise.conf", _link),
        ("90-writewise.fstab", lambda path: path.mkdir()),
        ("90-writewise.mount.conf", lambda path: path.write_text("[Mount]\nOptions=ro\n")),
        ("recommendation.json", lambda path: path.write_text('{"format": "mine"}')),
        ("90-writewise.ssm.json", os.mkfifo),
    ],
)
def test_advice_does_not_replace_a_file_that_writewise_did_not_write(name, put, tmp_path):
    (tmp_path / "out").mkdir()
    put(tmp_path / "out" / name)
    setting = Setting(ratio(80).sysctls, "noatime", (("queue/scheduler", "none"),))
    results = Study().credited(setting, 4.0)
    with pytest.raises(UsageError, match=f"{name} was not written by Writewise") as caught:
        advised(tmp_path, results.results, "--format=all")
    assert "--output-dir" in caught.value.hint
    assert os.listdir(tmp_path / "out") == [name]


def test_files_of_others_with_our_names_stay(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (tmp_path / "elsewhere.conf").write_text("# Written by writewise: elsewhere\n")
    (folder / "90-writewise.conf").symlink_to(tmp_path / "elsewhere.conf")
    (folder / "90-writewise-bytes.conf").write_text("vm.dirty_bytes = 1\n")
    (folder / "90-other.conf").write_text("# Written by writewise: under another name\n")
    (folder / "data.mount").write_text("[Mount]\nWhat=/dev/nvme1n1\n")
    (folder / "recommendation.json").write_text('{"format": "writewise-results"}')
    os.mkfifo(folder / "90-writewise.fstab")
    names = sorted(path.name for path in folder.iterdir())
    assert advised(tmp_path, Study().candidate(ratio(80), 20.0).results) == names


def test_a_sweep_reports_the_memory_group_too(monkeypatch, capsys):
    results = Study().tried(ratio(80), 4.0).results
    monkeypatch.setattr("profiler.requirements.require", lambda *needs: None)
    monkeypatch.setattr("profiler.study.study.run_study", lambda request, view: results)
    monkeypatch.setattr(sweep_command, "group_lines_here", lambda found: ["a group governs"])
    parser = argparse.ArgumentParser()
    sweep_command.add_arguments(parser)
    assert sweep_command.run(parser.parse_args(["s3://bucket/images", "/data"])) == 0
    assert "a group governs" in capsys.readouterr().out


def test_the_help_names_every_format():
    with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as output:
        main(["advise", "--help"])
    assert all(each.name in output.getvalue() for each in FORMATS)
