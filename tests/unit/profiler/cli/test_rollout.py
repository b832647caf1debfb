# SPDX-License-Identifier: Apache-2.0
"""`rollout plan`, `render` and `gate` as a fleet owner uses them, with real records."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from profiler.cli.main import main
from profiler.fleet.record import RolloutArm
from sysctl.rollout.arms import TREATED, WAITING, arm_of
from sysctl.rollout.plan_file import parse_plan
from tests.unit.changes import EVERYTHING
from tests.unit.fleet_records import DAY_RECORD, in_rollout, made_classes, made_record
from tests.unit.rollouts import node_names

NODES, STAGE = 3_000, 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("recommendation.json").write_text(json.dumps(EVERYTHING.to_json()))
    return tmp_path


def planned(capsys, *words):
    code = main(["rollout", "plan", "recommendation.json", "--nodes", str(NODES), *words])
    return code, capsys.readouterr()


def write_records(slower=1.0, oom_kills=0, verify="in force", class_number=0):
    """Write records of the plan's nodes in stage 2, 50 a file."""
    plan = parse_plan(Path("rollout.json").read_text(), "rollout.json")
    one = made_classes(2)[class_number]
    source = random.Random(2)
    lines = []
    for node in node_names(NODES):
        arm = arm_of(node, plan.id, plan.stage(STAGE).share, plan.control)
        is_treated = arm == TREATED
        seconds = 60 * source.lognormvariate(0, 0.1) * (slower if is_treated else 1)
        made = replace(
            made_record(one, source, 0, 4),
            peak_at_risk_bytes=10**6,
            oom_kills=oom_kills if is_treated else 0,
        )
        here = None if arm == WAITING else RolloutArm(plan.id, STAGE, arm)
        made = in_rollout(made, node, here, seconds, verify if is_treated else None)
        lines.append(json.dumps(made.to_json()) + "\n")
    Path("records").mkdir(exist_ok=True)
    for at in range(0, NODES, 50):
        text = "".join(lines[at : at + 50])
        Path(f"records/{class_number}-{at}.json.gz").write_bytes(gzip.compress(text.encode()))


def asked(capsys, *words):
    code = main(["rollout", "gate", "rollout.json", "records", "--stage", str(STAGE), *words])
    return code, capsys.readouterr()


def test_a_plan_is_saved_once_and_says_what_it_can_show(folder, capsys):
    code, said = planned(capsys)
    assert code == 0
    assert "excludes a rise of" in said.out
    before = Path("rollout.json").read_text()
    code, said = planned(capsys)
    assert code != 0
    assert Path("rollout.json").read_text() == before


@pytest.mark.parametrize("share", ["5", "0%", "100%", "x%", "-1%", "nan%", "1e1%"])
def test_a_share_is_a_percentage(folder, capsys, share):
    assert planned(capsys, f"--control={share}")[0] == 2


def test_every_engine_is_rendered_and_nobody_elses_file_replaced(folder, capsys):
    planned(capsys)
    Path("own").mkdir()
    Path("own/rollout.tuned.conf").write_text("[main]\n")
    assert main(["rollout", "render", "rollout.json", "--output-dir", "own"]) != 0
    assert [path.name for path in Path("own").iterdir()] == ["rollout.tuned.conf"]
    for _ in range(2):
        assert main(["rollout", "render", "rollout.json", "--output-dir", "new"]) == 0
    assert Path("new/rollout.ansible.yaml").exists()
    assert main(["rollout", "render", "rollout.json", "--format", "chef"]) == 2


def test_an_edited_plan_is_refused(folder, capsys):
    planned(capsys)
    document = json.loads(Path("rollout.json").read_text())
    document["recommendation"]["sysctls"][0]["value"] = 99
    Path("rollout.json").write_text(json.dumps(document))
    assert main(["rollout", "render", "rollout.json"]) == 2
    assert "was changed after" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("records", "code", "word"),
    [
        ({"slower": 0.7}, 0, "Go on"),
        ({"slower": 1.5}, 12, "Revert"),
        ({"slower": 0.7, "oom_kills": 1}, 12, "OOM kills"),
        ({"slower": 0.7, "verify": "not applied"}, 11, "not in force"),
    ],
)
def test_the_exit_code_is_the_decision(folder, capsys, records, code, word):
    planned(capsys)
    write_records(**records)
    found, said = asked(capsys)
    assert found == code, said
    assert word in said.out


def test_without_records_it_waits_and_broken_ones_are_named(folder, capsys):
    planned(capsys)
    Path("records").mkdir()
    Path("records/a.json.gz").write_bytes(b"no gzip")
    Path("records/b.json.gz").symlink_to("/etc/passwd")
    code, said = asked(capsys, "--json")
    found = json.loads(said.out)
    assert (code, found["decision"], found["because"]) == (10, "wait", ["votes"])
    assert found["not_counted"] == {"broken": {"count": 2, "some": ["a.json.gz", "b.json.gz"]}}
    assert asked(capsys)[0] == 10


def test_a_file_with_a_broken_record_does_not_count_at_all(folder, capsys):
    planned(capsys)
    write_records()
    for path in Path("records").iterdir():
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b"{}\n"))
    found = json.loads(asked(capsys, "--json")[1].out)
    assert found["not_counted"]["broken"]["count"] == NODES // 50
    assert found["shares"][1]["nodes"]["nodes"] == 0


@pytest.mark.parametrize(
    ("records", "code"), [({"slower": 0.7}, 0), ({"slower": 0.7, "verify": "changed"}, 11)]
)
def test_the_merged_tables_give_the_same_decision_as_the_records(folder, capsys, records, code):
    planned(capsys)
    write_records(**records)
    first, said = asked(capsys, "--json")
    assert main(["fleet", "ingest", "records", "tables"]) == 0
    Path("records").rename("moved")
    Path("tables").rename("records")
    capsys.readouterr()
    second, again = asked(capsys, "--json")
    assert first == second == code
    assert json.loads(said.out)["because"] == json.loads(again.out)["because"]


@pytest.mark.parametrize("words", [("--stage", "9"), ("--stage", "0")])
def test_a_stage_that_is_not_in_the_plan_is_refused(folder, capsys, words):
    planned(capsys)
    Path("records").mkdir()
    assert main(["rollout", "gate", "rollout.json", "records", *words]) == 2


def test_a_class_is_judged_by_its_own_records(folder, capsys):
    keys = [str(each.key) for each in made_classes(2)]
    assert planned(capsys, "--class", keys[0])[0] == 0
    write_records(slower=0.7)
    code, said = asked(capsys, "--json")
    found = json.loads(said.out)
    assert (code, found["class"]) == (0, keys[0])
    Path("rollout.json").unlink()
    assert planned(capsys, "--class", keys[1])[0] == 0
    code, said = asked(capsys, "--json")
    assert (code, json.loads(said.out)["because"]) == (10, ["votes"])
    assert keys[1] in asked(capsys)[1].out


@pytest.mark.parametrize("form", ["directory", "tables"])
def test_nodes_of_another_class_in_the_roll_out_are_named(folder, capsys, form):
    keys = [str(each.key) for each in made_classes(2)]
    code, said = planned(capsys, "--class", keys[1])
    assert code == 0 and keys[1] in said.out
    write_records(slower=0.7)  # of the other class
    if form == "tables":
        assert main(["fleet", "ingest", "records", "tables"]) == 0
        Path("records").rename("files")
        Path("tables").rename("records")
        capsys.readouterr()
    found = json.loads(asked(capsys, "--json")[1].out)
    assert found["not_counted"]["other_class"]["count"] > 100


@pytest.mark.parametrize("words", [("--class", "../x"), ("--class", "")])
def test_an_invalid_class_is_a_usage_error(folder, capsys, words):
    code, said = planned(capsys, *words)
    assert code == 2
    assert "invalid class" in said.err and "Traceback" not in said.err


@pytest.mark.parametrize("form", ["directory", "tables"])
def test_records_of_days_are_no_votes_and_no_sign_of_life(folder, capsys, form):
    planned(capsys)
    plan = parse_plan(Path("rollout.json").read_text(), "rollout.json")
    start = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    days = [
        replace(
            DAY_RECORD,
            node=node,
            start=start,
            oom_kills=5,
            rollout=RolloutArm(plan.id, STAGE, TREATED),
            verify="in force",
        )
        for node in node_names(NODES)
    ]
    lines = "".join(json.dumps(each.to_json()) + "\n" for each in days[:300])
    Path("records").mkdir()
    Path("records/days.json.gz").write_bytes(gzip.compress(lines.encode()))
    if form == "tables":
        assert main(["fleet", "ingest", "records", "tables"]) == 0
        Path("records").rename("files")
        Path("tables").rename("records")
        capsys.readouterr()
    code, said = asked(capsys, "--json")
    found = json.loads(said.out)
    assert (code, found["because"], found["not_counted"]) == (10, ["votes"], {})
    assert all(each["treated"]["nodes"] == 0 for each in found["events"])
