# SPDX-License-Identifier: Apache-2.0
"""The report on a fleet: waits by cause, savings, outliers; and the commands."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from contracts.causes import Cause
from profiler.cli.main import main
from profiler.fleet.ingest import ingest
from profiler.fleet.record import PullCounts, PullRates
from profiler.fleet.report import OUTLIER_NODES, report_on
from profiler.fleet.writing import parse_place, write_record
from profiler.pull.access import S3Access
from sysctl.evidence.prediction import Model
from tests.unit.fleet_records import (
    CLASS,
    DAY_RECORD,
    GIB,
    NS,
    PRESENT,
    RECORD,
    made_classes,
    made_records,
)
from tests.unit.profiler.fleet.test_ingest import packed

OTHER = replace(CLASS, instance_type="c5.large")


def node(number, key=CLASS, **changed):
    name = f"{number:08x}-0000-4000-8000-000000000000"
    return replace(RECORD, node=name, node_class=key, **changed)


def reported(records, folder):
    assert not ingest(packed(records), folder).broken
    return report_on(folder)


def test_nodes_count_by_what_their_writers_wait_for_most(tmp_path):
    waits = {
        Cause.THROTTLING: 3,
        Cause.DEVICE: 2,
        Cause.SLEEPING: 1,
        Cause.ON_CPU: 4,  # no wait
    }
    records, number = [], 0
    for cause, nodes in waits.items():
        for _ in range(nodes):
            records.append(node(number, stalls={cause: 50 * NS}, writer_ns=80 * NS))
            number += 1
    (only,) = reported(records, tmp_path).classes
    assert only.waiting == {"dirty throttling": 3, "waiting for the device": 2, "other waits": 1}
    assert (only.nodes, only.waiting_nodes) == (10, 6)


def test_a_wait_below_5_percent_of_the_writers_time_is_none(tmp_path):
    records = [
        node(1, stalls={Cause.THROTTLING: 399}, writer_ns=8000),
        node(2, stalls={Cause.THROTTLING: 400}, writer_ns=8000),
    ]
    assert reported(records, tmp_path).classes[0].waiting_nodes == 1


def test_several_records_of_a_node_are_one_node(tmp_path):
    records = [node(1, start=f"2026-11-24T0{hour}:00:00.000Z") for hour in range(5)]
    (only,) = reported(records, tmp_path).classes
    assert (only.nodes, only.pulls) == (1, 5)
    assert only.distributions["return_time_ns"].count == 5
    assert only.distributions["return_time_ns"].p50_s == pytest.approx(20, rel=1 / 16)


def test_the_saving_is_what_the_model_predicts(tmp_path):
    rates = PullRates(2 * GIB, 8 * GIB, 600e6, 65e6, GIB)
    slow = [node(at, rates=rates) for at in range(4)]
    (only,) = reported(slow, tmp_path).classes
    model = Model(PRESENT, 2 * GIB, 8 * GIB, 600e6, 65e6, GIB)
    values = {"vm.dirty_ratio": 30, "vm.dirty_background_ratio": 20}
    now, best = model.predict(PRESENT), model.predict(values)
    saving = only.saving
    assert saving is not None
    assert saving.setting == "dirty_ratio=30 dirty_background_ratio=20"
    assert saving.present_s == pytest.approx(4 * now.return_s)
    assert saving.saved_s == pytest.approx(4 * (now.return_s - best.return_s))
    assert (saving.peak_bytes, saving.present_peak_bytes) == (
        best.peak_dirty_bytes,
        now.peak_dirty_bytes,
    )


def test_classes_come_in_the_order_in_which_to_study_them(tmp_path):
    small = PullRates(GIB, 4 * GIB, 600e6, 65e6, GIB)
    fits = PullRates(GIB // 10, 8 * GIB, 600e6, 65e6, GIB // 10)
    third = replace(CLASS, instance_type="r5.large")
    records = [
        node(1, replace(CLASS, instance_type="t3.large"), rates=None),
        node(2, third, rates=fits),
        node(3, rates=small),
        *(node(number, OTHER, rates=small) for number in range(4, 9)),
    ]
    found = reported(records, tmp_path)
    assert [each.class_key for each in found.to_study] == [str(OTHER), str(CLASS)]
    last = {each.class_key: each.predicted_pulls for each in found.classes[2:]}
    assert sorted(last.values()) == [0, 1] and last[str(third)] == 1


def pulls_of(seconds):
    return PullCounts(1, 0, 2 * GIB, round(seconds * NS), round(seconds * NS))


def test_an_outlier_is_far_from_the_median_in_units_that_it_does_not_widen(tmp_path):
    rng = random.Random(3)
    usual = [node(at, pulls=pulls_of(20 * rng.lognormvariate(0, 0.02))) for at in range(20)]
    slow, fast = node(100, pulls=pulls_of(40)), node(101, pulls=pulls_of(10))
    found = reported([*usual, slow, fast], tmp_path).outliers
    assert {each.node for each in found} == {slow.node, fast.node}
    by_node = {each.node: each for each in found}
    assert by_node[slow.node].times_the_median == pytest.approx(2, rel=0.05)
    assert by_node[fast.node].times_the_median == pytest.approx(0.5, rel=0.05)
    units = by_node[slow.node].units
    assert units is not None and units > 5


def test_nodes_of_a_small_class_and_small_differences_are_no_outliers(tmp_path):
    few = [node(at, OTHER, pulls=pulls_of(20)) for at in range(OUTLIER_NODES - 2)]
    equal = [node(100 + at, pulls=pulls_of(20)) for at in range(20)]
    records = [*few, node(50, OTHER, pulls=pulls_of(90)), *equal, node(200, pulls=pulls_of(22))]
    assert reported(records, tmp_path).outliers == ()


def test_a_pull_of_other_size_is_compared_by_its_time_per_byte(tmp_path):
    usual = [node(at, pulls=pulls_of(20 + at / 10)) for at in range(20)]
    twice = node(100, pulls=PullCounts(1, 0, 4 * GIB, 41 * NS, 41 * NS))
    assert reported([*usual, twice], tmp_path).outliers == ()


def test_the_commands_merge_and_report(tmp_path, capsys):
    source, tables = tmp_path / "records", tmp_path / "tables"
    for record in made_records(made_classes(3), 60):
        write_record(record, parse_place(str(source)), S3Access())
    (source / "bad.json.gz").write_bytes(b"x")
    assert main(["fleet", "ingest", str(source), str(tables)]) == 0
    output = capsys.readouterr().out
    assert "60 records of 60 nodes in 3 classes" in output
    assert "1 of 61 files do not count" in output and "bad.json.gz: the gzip file is" in output
    assert main(["fleet", "report", str(tables)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("60 nodes in 3 classes")
    assert main(["fleet", "report", str(tables), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], len(document["classes"])) == ("writewise-fleet-report", 3)


def test_a_report_of_nothing_is_not_an_error(tmp_path, capsys):
    (tmp_path / "none").mkdir()
    assert main(["fleet", "ingest", str(tmp_path / "none"), str(tmp_path / "tables")]) == 0
    assert main(["fleet", "report", str(tmp_path / "tables")]) == 0
    assert "0 nodes in 0 classes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["ingest", "x", "y", "--since", "yesterday"], ["report", "none"]]
)
def test_wrong_words_are_usage_errors(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["fleet", *words]) == 2
    assert "→" in capsys.readouterr().err


def watched(number, stalled_s, burst_s=100, **changed):
    """The day of a node: so many seconds with bursts, and of them with stalls."""
    name = f"{number:08x}-0000-4000-8000-000000000000"
    counts = replace(DAY_RECORD.day, burst_ns=burst_s * NS, stalled_ns=round(stalled_s * NS))
    counts = replace(counts, above_freerun_ns=0)
    return replace(DAY_RECORD, node=name, day=counts, **changed)


def test_nodes_that_stall_are_shown_from_either_kind_of_record(tmp_path):
    stalls = {"stalls": {Cause.THROTTLING: 50 * NS}, "writer_ns": 80 * NS}
    none = {"stalls": {}, "writer_ns": 80 * NS}
    here = {"node_class": CLASS}
    records = [
        node(1, **stalls),
        node(2, **none),
        watched(3, stalled_s=5, **here),
        watched(4, stalled_s=4.9, **here),
        watched(5, stalled_s=0, burst_s=0, **here),
        node(6, **none),  # its pulls did not stall, and its day did
        watched(6, stalled_s=90, **here),
        node(7, stalls={Cause.DEVICE: 50 * NS}, writer_ns=80 * NS),
        watched(7, stalled_s=90, **here),  # a pull's cause is known better
    ]
    (only,) = reported(records, tmp_path).classes
    assert only.waiting == {"dirty throttling": 3, "waiting for the device": 1, "other waits": 0}
    assert (only.nodes, only.pulls) == (7, 4)
    seen = only.watched
    assert seen is not None and seen.nodes == 5
    times = (seen.watched_s, seen.burst_s, seen.stalled_s)
    assert times == pytest.approx((5 * 86_390, 400, 189.9))


def test_a_class_of_days_alone_is_shown(tmp_path, capsys):
    (only,) = reported([watched(at, stalled_s=30) for at in range(6)], tmp_path).classes
    assert (only.pulls, only.waiting_nodes, only.saving) == (0, 6, None)
    assert main(["fleet", "report", str(tmp_path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "6 nodes in 1 class; writers wait on 6" in printed
    assert "0.1 h, 30% of it" in printed
    assert main(["fleet", "report", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["classes"]
    assert found["watched"]["nodes"] == 6


def test_several_days_of_a_node_are_judged_together(tmp_path):
    days = [
        watched(1, stalled_s=stalled, start=f"2026-11-{day}T00:00:00.000Z")
        for day, stalled in ((21, 0), (22, 4), (23, 12))
    ]
    (only,) = reported(days, tmp_path).classes
    assert (only.nodes, only.waiting_nodes) == (1, 1)
