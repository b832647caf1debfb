# SPDX-License-Identifier: Apache-2.0
"""`writewise study` as an owner of a fleet uses it, and its documents."""

from __future__ import annotations

import json

import pytest

from profiler.cli.json_documents import BY_COMMAND
from profiler.cli.main import main
from profiler.fleet.node_id import node_id
from profiler.lab.s3_server import S3Server
from profiler.shared_study.address import parse_address
from profiler.shared_study.join import node_name
from profiler.shared_study.ledger import Ledger
from sysctl.change.recommendation_file import parse_recommendation
from sysctl.host.system import System
from tests.postgresql.test_ledger import CLASS
from tests.unit.sysctl.fleet.studies import finished, scattered


@pytest.fixture
def study(server, request):
    """The words of a study that five nodes have finished, with a server of the real kind."""
    name = request.node.name.replace("_", "-").replace("[", "-").strip("]")[:50]
    words = [server.url(), "--study", name]
    asked = ["--class", CLASS, "--dirty-ratio", "20,40,60", "--dirty-background-ratio", "5,10"]
    assert main(["study", "create", *words, *asked, "--nodes", "5"]) == 0
    ledger = Ledger(parse_address(server.url()), name)
    for record in finished(ledger.spec(), factor=scattered):
        ledger.adopt(record.claim, record.runs)
    ledger.close()
    return words


def test_canaries_are_not_asked_to_join_with_the_role_of_the_owner(server, capsys):
    assert main(["study", "create", server.url(), "--study", "role", "--class", CLASS]) == 0
    printed = capsys.readouterr().out
    assert "writewise study join LEDGER --study role " in printed
    assert server.url() not in printed


def test_the_class_gets_a_recommendation_with_its_prediction(study, capsys):
    capsys.readouterr()
    assert main(["study", "advise", *study]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Set dirty_ratio=60 dirty_background_ratio=")
    assert "another node" in printed and "prediction interval" in printed
    assert main(["study", "advise", *study, "--max-at-risk", "512MiB"]) == 0
    assert "--max-at-risk" in capsys.readouterr().out


def test_the_recommendation_is_a_file_that_apply_and_a_roll_out_take(study, tmp_path, capsys):
    assert main(["study", "advise", *study, "--output-dir", str(tmp_path)]) == 0
    assert f"wrote {tmp_path}/recommendation.json" in capsys.readouterr().out
    text = (tmp_path / "recommendation.json").read_text()
    change = parse_recommendation(text, "recommendation.json")
    assert change.sysctl_values["vm.dirty_ratio"] == 60
    assert change.evidence.pairs == 20
    assert change.evidence.ratio_low < change.evidence.ratio < 1
    plan = ["rollout", "plan", str(tmp_path / "recommendation.json"), "--nodes", "1000"]
    assert main([*plan, "--output", str(tmp_path / "plan.json")]) == 0
    assert json.loads((tmp_path / "plan.json").read_text())["class"] == CLASS
    assert CLASS in (tmp_path / "90-writewise.conf").read_text()
    limited = [*study, "--output-dir", str(tmp_path), "--max-at-risk", "512MiB"]
    assert main(["study", "advise", *limited]) == 0
    assert not (tmp_path / "90-writewise.conf").exists(), "nothing is recommended any more"


@pytest.mark.parametrize("action", ["status", "advise"])
def test_the_documents_have_the_keys_of_the_table(study, action, capsys):
    capsys.readouterr()
    assert main(["study", action, *study, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == {"schema", "version", *BY_COMMAND[f"study {action}"].keys}


def test_the_state_has_what_was_done(study, capsys):
    capsys.readouterr()
    assert main(["study", "status", *study, "--json"]) == 0
    (state,) = json.loads(capsys.readouterr().out)["studies"]
    assert state["blocks"] == {"running": 0, "told": 10, "lost": 0}
    assert len(state["nodes"]) == 5
    assert main(["study", "status", study[0]]) == 0
    assert f"study {study[2]}: 5 candidates" in capsys.readouterr().out


def test_a_forged_study_hides_no_other(study, server, capsys):
    forged = [server.url(), "--study", "forged"]
    assert main(["study", "create", *forged, "--class", CLASS]) == 0
    server.sql(
        "UPDATE study_user_attributes SET value_json = '{}' WHERE study_id = "
        "(SELECT study_id FROM studies WHERE study_name = 'forged')"
    )
    capsys.readouterr()
    assert main(["study", "status", server.url()]) == 0
    printed = capsys.readouterr().out
    assert f"study {study[2]}: 5 candidates" in printed
    assert "the study 'forged' is refused" in printed
    assert main(["study", "status", server.url(), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert study[2] in {each["study"] for each in document["studies"]}
    assert "forged" in document["refused"]
    assert main(["study", "status", *forged]) == 1


def test_a_class_with_two_kinds_of_nodes_is_split_and_each_kind_has_a_study(server, capsys):
    words = [server.url(), "--study", "two-kinds"]
    asked = ["--class", CLASS, "--dirty-ratio", "20,40,60", "--dirty-background-ratio", "5,10"]
    assert main(["study", "create", *words, *asked, "--nodes", "5"]) == 0
    ledger = Ledger(parse_address(server.url()), "two-kinds")
    for record in finished(ledger.spec(), factor=lambda node: 1.0 if node < "n3" else 2.6):
        ledger.adopt(record.claim, record.runs)
    ledger.close()
    capsys.readouterr()
    assert main(["study", "advise", *words]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Change nothing on the class, and split it")
    assert "n0 0." in printed and "n4 1." in printed
    words = [server.url(), "--study", "one-kind"]
    assert main(["study", "create", *words, *asked, "--kind", "new-disks"]) == 0
    assert "--study one-kind --kind new-disks s3://" in capsys.readouterr().out
    assert Ledger(parse_address(server.url()), "one-kind").spec().class_key == f"{CLASS}.new-disks"


@pytest.fixture
def looked(server, tmp_path, monkeypatch, capsys):
    """What a dry run of this host prints for a study of a class and kind."""
    (tmp_path / "state").mkdir(0o700)
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    (tmp_path / "buckets/bucket/prefix").mkdir(parents=True)
    (tmp_path / "buckets/bucket/prefix/object").write_bytes(bytes(1000))
    (tmp_path / "data").mkdir()

    def look(name, class_key, *kind, joining=()):
        made = ["study", "create", server.url(), "--study", name, "--class", class_key, *kind]
        assert main(made) == 0
        where = ["s3://bucket/prefix", str(tmp_path / "data"), "--results", str(tmp_path)]
        words = [server.url(), "--study", name, *where, "--max-at-risk", "1GiB", *joining]
        words += ["--endpoint-url", s3.endpoint_url, "--no-sign-request"]
        capsys.readouterr()
        assert main(["study", "join", *words, "--dry-run", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    with S3Server(tmp_path / "buckets") as s3:
        yield look


def test_a_dry_run_shows_class_kind_and_name(looked):
    first = looked("probe", "any")
    assert "the study of any" in first["problem"]
    assert first["node"] is None, "a look makes no name"
    here = first["class_key"]
    of_kind = ("--kind", "old-disks")
    assert "`--kind old-disks`" in looked("split", here, *of_kind)["problem"]
    name = node_id(System())
    found = looked("joined", here, *of_kind, joining=of_kind)
    assert found["node"] == node_name("joined", name)
    assert "class" not in (found["problem"] or "")


def test_a_study_of_another_program_does_not_hide_the_others(study, server, capsys):
    server.sql("INSERT INTO studies (study_name) VALUES ('of another')")
    capsys.readouterr()
    assert main(["study", "status", study[0]]) == 0
    printed = capsys.readouterr()
    assert f"study {study[2]}: 5 candidates" in printed.out
    assert "of another" in printed.out
    server.sql("DELETE FROM studies WHERE study_name = 'of another'")


def test_a_password_in_the_address_is_refused(capsys):
    assert main(["study", "status", "postgresql://me:hunter2@db/studies"]) == 2
    printed = capsys.readouterr().err
    assert "PGPASSFILE" in printed and "hunter2" not in printed


@pytest.mark.parametrize(
    "words",
    [
        ["--class", "../x"],
        ["--class", CLASS, "--nodes", "2"],
        ["--class", "x" * 190, "--kind", "a-kind-that-is-too-long"],
        ["--class", CLASS, "--dirty-ratio", "101"],
        ["--class", CLASS, "--dirty-ratio", "20", "--dirty-background-ratio", "10"],
        ["--class", CLASS, "--dirty-ratio", "20", "--dirty-bytes", "1GiB"],
        ["--class", CLASS, "--present", "vm.dirty_ratio=x"],
        ["--class", CLASS, "--present", "kernel.x=1"],
    ],
)
def test_an_impossible_study_is_a_usage_error(server, words, capsys):
    assert main(["study", "create", server.url(), "--study", "impossible", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert main(["study", "status", server.url(), "--study", "impossible"]) == 2


def test_a_server_that_is_down_is_one_sentence(tmp_path, capsys):
    assert main(["study", "status", f"postgresql:///studies?host={tmp_path}"]) == 1
    assert "cannot be used" in capsys.readouterr().err
