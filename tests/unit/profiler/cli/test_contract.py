# SPDX-License-Identifier: Apache-2.0
"""`writewise contract`, run through `main` as a user does."""

from __future__ import annotations

import resource

import pytest

from contracts import mistral
from contracts.loading import LIBRARY, load_contract
from profiler.cli.main import main
from tests.places import DATA

MISTRAL, YAML = LIBRARY / "case-study.mistral", LIBRARY / "case-study.yaml"
BAD = DATA / "contracts" / "bad" / "no-header.mistral"


def test_check_says_ok_for_each_good_file(capsys):
    assert main(["contract", "check", str(MISTRAL), str(YAML)]) == 0
    assert capsys.readouterr().out == f"{MISTRAL}: OK, 3 rules\n{YAML}: OK, 3 rules\n"


def test_check_goes_on_after_bad_files_and_says_every_error(capsys, tmp_path):
    files = [str(BAD), str(tmp_path), str(YAML)]
    assert main(["contract", "check", *files]) == 2
    printed = capsys.readouterr()
    assert printed.out == f"{YAML}: OK, 3 rules\n"
    for line in BAD.with_name(BAD.name + ".errors").read_text().splitlines():
        assert f"  {line}\n" in printed.err
    assert f"{BAD}: 2 errors\n" in printed.err
    assert f"{tmp_path} is a directory" in printed.err


@pytest.mark.parametrize(
    ("source", "options", "start"),
    [
        (MISTRAL, [], "timeframe: 1000s\n"),
        (YAML, [], "2,monitortimeframe,1000s\n"),
        (YAML, ["--to", "yaml"], "timeframe: 1000s\n"),
        (MISTRAL, ["--to", "mistral"], "2,monitortimeframe,1000s\n"),
    ],
)
def test_convert_writes_the_same_contract_in_the_other_syntax(
    capfdbinary, tmp_path, source, options, start
):
    assert main(["contract", "convert", str(source), *options]) == 0
    written = capfdbinary.readouterr().out
    assert written.decode().startswith(start)
    copy = tmp_path / "copy"
    copy.write_bytes(written)
    assert load_contract(str(copy)) == load_contract(str(source))


def test_convert_to_mistral_names_what_it_cannot_express(tmp_path, capsys):
    source = tmp_path / "contract.yaml"
    rule = "{label: a, path: /, calls: write+fsync, measure: p99, threshold: 1ms}"
    source.write_text(f"timeframe: 1s\nrules: [{rule}]\n")
    assert main(["contract", "convert", str(source)]) == 2
    error = capsys.readouterr().err
    assert f"{source} cannot be written as mistral: Mistral has no word for fsync, p99\n" in error
    assert "keep the contract as YAML" in error


def test_convert_writes_a_new_file(tmp_path, capsys):
    output = tmp_path / "out.yaml"
    assert main(["contract", "convert", str(MISTRAL), "-o", str(output)]) == 0
    assert load_contract(str(output)) == load_contract(str(MISTRAL))
    assert output.stat().st_mode & 0o022 == 0
    assert capsys.readouterr().out == ""


def test_convert_overwrites_nothing_and_follows_no_symlink(tmp_path, capsys):
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("mine")
    link.symlink_to(tmp_path / "elsewhere")
    for output in (kept, link):
        assert main(["contract", "convert", str(MISTRAL), "-o", str(output)]) == 2
        assert f"{output} exists already" in capsys.readouterr().err
    assert kept.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_convert_to_a_directory_that_is_missing_says_so(tmp_path, capsys):
    output = tmp_path / "missing" / "out.yaml"
    assert main(["contract", "convert", str(MISTRAL), "-o", str(output)]) == 2
    assert f"cannot write {output}: No such file or directory" in capsys.readouterr().err


def test_convert_refuses_a_bad_file_with_all_its_errors(capsys):
    assert main(["contract", "convert", str(BAD)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "line 1: missing header" in printed.err
    assert "line 2: invalid size '1furlong'" in printed.err


def test_convert_refuses_what_does_not_read_back(monkeypatch, tmp_path, capsys):
    from contracts import loading

    other = mistral.parse("2,monitortimeframe,1s\na,/,write,all,count,1\n", "other")
    lossy = loading.Syntax(mistral.parse, lambda contract: mistral.render(other))
    monkeypatch.setitem(loading.SYNTAXES, "mistral", lossy)
    output = tmp_path / "out"
    assert main(["contract", "convert", str(YAML), "-o", str(output)]) == 1
    assert "without a loss" in capsys.readouterr().err
    assert not output.exists()


def test_a_write_that_fails_leaves_no_partial_file(tmp_path, capsys):
    output = tmp_path / "out.yaml"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))  # as a full disk, for this process
    try:
        exit_code = main(["contract", "convert", str(MISTRAL), "-o", str(output)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert exit_code == 2
    assert f"cannot write {output}: File too large" in capsys.readouterr().err
    assert not output.exists()
