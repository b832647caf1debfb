# SPDX-License-Identifier: Apache-2.0
"""`--json`: what each command really prints has the schema, version and keys of the table."""

from __future__ import annotations

import argparse
import contextlib
import io
import json

import pytest

from contracts import yaml_file
from contracts.loading import LIBRARY
from contracts.model import Contract
from profiler import requirements
from profiler.cli import bench_clients, pull, transfer
from profiler.cli.json_documents import DOCUMENTS, emit
from profiler.cli.main import build_parser, main
from profiler.cli.parser import Parser
from profiler.client_bench.client_comparison import ClientComparison
from profiler.fleet.ingest import ingest
from profiler.fleet.sources import PackedFile
from profiler.govern import loop, volumes
from profiler.lab import lab
from profiler.pull.resume import Resumed
from profiler.pull.source import Location, PullPlan
from profiler.recording import privileges
from profiler.report.profile import profile_document
from profiler.study import study
from sysctl.rollout.plan import make_plan
from tests.unit import predictions
from tests.unit.applied_hosts import FilesHost, in_place_of_this_host
from tests.unit.fleet_records import RECORD
from tests.unit.profiler.client_bench.test_client_bench import CONTEXT, cell, row
from tests.unit.profiler.report.test_profile import COUNTS, SECOND_NS, profile_of
from tests.unit.profiler.report.test_pulls import CONTRACT, MEASURED
from tests.unit.studies import Study, ratio
from tests.unit.sysctl.apply.test_apply import SYSCTLS

SOURCE = "s3://bucket/images"


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A host of files, results of a sweep, and no measurement that takes root or S3."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setattr(requirements, "require", lambda *_: None)
    results = Study().tried(ratio(80), 4.0).results
    results.save(tmp_path / "results.json")
    predictions.results().save(tmp_path / "predictable.json")
    (tmp_path / "contract.yaml").write_text(yaml_file.render(CONTRACT))
    (tmp_path / "recommendation.json").write_text(json.dumps(SYSCTLS.to_json()))
    plan = make_plan(SYSCTLS, 1000)
    (tmp_path / "rollout.json").write_text(json.dumps(plan.to_json()))
    (tmp_path / "records").mkdir()
    ingest([PackedFile("1.json.gz", RECORD.packed())], tmp_path / "tables")
    monkeypatch.setattr(study, "run_study", lambda *_: results)
    monkeypatch.setattr(transfer, "measuring_alone", lambda _: contextlib.nullcontext())
    resumed = Resumed(PullPlan(Location("bucket", ""), ()), ())
    monkeypatch.setattr(pull, "pull_and_measure", lambda *_: (resumed, MEASURED))
    found = ClientComparison((row(cell("direct", 1.0)),), CONTEXT)
    monkeypatch.setattr(bench_clients, "compare_clients", lambda *_: found)
    monkeypatch.setattr(lab, "status", lambda: None)
    monkeypatch.setattr(volumes, "named_volumes", lambda *_: ())
    monkeypatch.setattr(volumes, "opened_volumes", lambda *_: contextlib.nullcontext(((), 0)))
    monkeypatch.setattr(loop.Loop, "run", lambda *_: None)
    monkeypatch.setattr(privileges, "keep_only", lambda _: None)
    return tmp_path


@pytest.fixture
def host(made_up, monkeypatch):
    """The host of files in place of this one."""
    in_place_of_this_host(monkeypatch, FilesHost(made_up / "root"))


WORDS = {
    "doctor": "doctor",
    "pull": f"pull {SOURCE} . --contract contract.yaml",
    "sweep": f"sweep {SOURCE} .",
    "advise": "advise results.json --output-dir files",
    "transfer tune": f"transfer tune {SOURCE} . --output-dir files",
    "predict": "predict predictable.json",
    "plan": "plan --burst 1GiB --volume-type gp3 --instance-type m5.large",
    "plan --cheapest": "plan --burst 1GiB --cheapest --capacity 9GiB --instance-type m5.large",
    "clients": "clients",
    "compare": "compare results.json results.json",
    "history": "history",
    "govern": "govern --dry-run .",
    "fleet ingest": "fleet ingest records merged",
    "fleet report": "fleet report tables",
    "rollout plan": "rollout plan recommendation.json --nodes 1000 --output new.json",
    "rollout render": "rollout render rollout.json --output-dir files",
    "rollout gate": "rollout gate rollout.json tables --stage 1",
    "bench-clients": "bench-clients .",
    "contract check": f"contract check {LIBRARY / 'case-study.yaml'}",
    "lab": "lab status",
}
OF_HOST = {
    "apply": "apply recommendation.json --yes",
    "run": "run --settings recommendation.json -- true",
    "verify": "verify recommendation.json",
    "status": "status",
    "rollback": "rollback",
}
TABLE = {document.command: document for document in DOCUMENTS}


def check(command: str, text: str) -> None:
    document, wanted = json.loads(text), TABLE[command]
    assert list(document)[:2] == ["schema", "version"]
    assert (document["schema"], document["version"]) == (wanted.schema, wanted.version)
    assert set(document) == {"schema", "version", *wanted.keys}


@pytest.mark.parametrize("command", WORDS)
def test_what_a_command_prints_is_as_the_table_says(command, made_up, capsys):
    main([*WORDS[command].split(), "--json"])
    check(command, capsys.readouterr().out)


@pytest.mark.parametrize("command", OF_HOST)
def test_what_a_command_of_the_host_prints_is_as_the_table_says(command, host, capsys):
    name, *words = OF_HOST[command].split()
    main([name, "--json", *words])
    check(command, capsys.readouterr().out)


def test_a_profile_is_as_the_table_says():
    output = io.StringIO()
    emit("profile", profile_document(profile_of(Contract(SECOND_NS, (COUNTS,)), 3)), output)
    check("profile", output.getvalue())


def test_a_dry_run_and_the_real_one_have_the_same_keys(host, capsys):
    documents = []
    for flag in ("--dry-run", "--yes"):
        assert main(["apply", "recommendation.json", flag, "--json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    dry, real = documents
    assert set(dry) == set(real)
    assert (dry["dry_run"], dry["applied"], dry["done"]) == (True, False, [])
    assert (real["dry_run"], real["applied"]) == (False, True)
    assert {each["name"] for each in real["sysctls"]} == {each.name for each in SYSCTLS.sysctls}
    assert main(["rollback", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["restored"]) >= 1


def test_apply_does_not_ask_in_the_middle_of_a_document(host, capsys):
    assert main(["apply", "recommendation.json", "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "--yes" in printed.err


def test_bad_contracts_are_in_the_document_and_on_standard_error(made_up, capsys):
    (made_up / "bad.yaml").write_text("rules: {}\n")
    good = str(LIBRARY / "case-study.yaml")
    assert main(["contract", "check", good, "bad.yaml", "missing.yaml", "--json"]) == 2
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["valid"] is False
    assert [len(each["problems"]) for each in document["files"]] == [0, 2, 1]
    assert "bad.yaml: 2 errors" in printed.err and "missing.yaml" in printed.err


def with_json(parser: Parser) -> set[str]:
    names = {parser.prog} if "--json" in parser.format_help() else set()
    return names.union(*map(with_json, parser.subparsers.values()))


def test_every_command_with_json_is_in_the_table_and_the_reverse():
    parsers = {name.removeprefix("writewise ") for name in with_json(build_parser())}
    assert {"lab up", "lab down", "lab status"} < parsers
    dry_run = "sweep --dry-run"
    of_options = {dry_run, "plan --cheapest", "study join --dry-run"}
    assert {"lab" if name.startswith("lab ") else name for name in parsers} == {*TABLE} - of_options
    # those of a study need a ledger: tests/postgresql/test_study_command.py
    of_ledger = {name for name in TABLE if name.startswith("study ")}
    assert set(TABLE) == {*WORDS, *OF_HOST, *of_ledger, "profile", dry_run}


def test_every_key_has_a_line():
    for document in DOCUMENTS:
        for key, meaning in document.keys.items():
            assert meaning and not meaning.endswith("."), f"{document.command}: {key}"


def test_the_parser_is_argparse_s():
    assert isinstance(build_parser(), argparse.ArgumentParser)
