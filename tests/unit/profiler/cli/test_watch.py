# SPDX-License-Identifier: Apache-2.0
"""`writewise watch` and `--metrics-textfile`: what is refused, with which sentence."""

from __future__ import annotations

import argparse
import os

import pytest

from profiler.cli.main import main
from profiler.cli.metrics_textfile import usable_textfile, write_pull
from profiler.cli.watch import address_of
from profiler.report.watch import begin_line, notes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--level", "calls", "--escalate", "10m"], "--escalate needs level stalls"),
        (["--contract", "c.yaml"], "--contract counts calls"),
        (["--listen", "localhost:9791"], "invalid address 'localhost:9791' for --listen"),
        (["--listen", "127.0.0.1"], "invalid address"),
        (["--listen", "127.0.0.1:0"], "invalid address"),
        (["--listen", "127.0.0.1:99999"], "invalid address"),
        (["--listen", ":9791"], "invalid address"),
        (["--listen", "[::1:9791"], "invalid address"),  # not [::], all addresses
        (["--listen", "[127.0.0.15:9791"], "invalid address"),
        (["--otlp", "localhost:4318"], "invalid URL of the OTLP endpoint"),
        (["--otlp", "http://me:secret@h"], "has a user name"),
        (["--otlp", "http://[::1"], "invalid URL of the OTLP endpoint"),
        (["--otlp", "http://h:4318/a b"], "invalid URL of the OTLP endpoint"),
        (["--otlp", "http://h:4318/\u00e9"], "invalid URL of the OTLP endpoint"),
        (["--otlp", "http://a..b:4318"], "invalid URL of the OTLP endpoint"),
        (["--record", "s3://bucket/x"], "--record needs DEST"),
        ([".", "--record", "http://host/x"], "invalid place for records"),
        ([".", "--record", "s3://"], "invalid S3 address"),
        (["--level", "all"], "invalid value 'all'"),
        (["--escalate", "0s"], "longer than 0"),
    ],
)
def test_what_is_refused(words, message, capsys) -> None:
    assert main(["watch", *words, "--print-unit"]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "secret" not in said
    assert "Traceback" not in said


def test_an_address() -> None:
    assert str(address_of("[::1]:9791")) == "[::1]:9791"
    listen = address_of("127.0.0.1:9791")
    assert listen is not None
    assert (listen.url, listen.is_loopback) == ("http://127.0.0.1:9791/metrics", True)
    assert not address_of("0.0.0.0:1").is_loopback
    assert address_of("off") is None


def test_the_first_lines() -> None:
    line = begin_line(["nvme1n1"], counts_calls=False, escalates_s=600)
    assert "write-back and nvme1n1 (level stalls" in line
    assert line.endswith("calls for 600 s when writers are throttled")
    assert "level calls" in begin_line([], counts_calls=True, escalates_s=None)
    assert notes([], None) == []
    assert notes(["a", "b"], "0.0.0.0:1") == [
        "2 disks left out: a, b; name DEST",
        "everybody who reaches 0.0.0.0:1 can read the metrics",
    ]


def test_a_watch_that_exports_nothing_is_refused(capsys) -> None:
    assert main(["watch", "--listen", "off"]) == 2
    assert "--listen off without --otlp exports nothing" in capsys.readouterr().err


def textfile(path):
    return usable_textfile(argparse.Namespace(metrics_textfile=path))


def test_a_textfile_that_cannot_be_written_costs_a_sentence(tmp_path, capsys) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert textfile(shared / "a.prom") is None
    said = capsys.readouterr().err
    assert "others can write to its directory" in said
    assert said.count("\n") == 2


def test_the_times_of_a_pull_are_written(tmp_path, capsys) -> None:
    path = textfile(tmp_path / "a.prom")
    assert path is not None
    write_pull(path, 12.5, None)
    text = path.read_text()
    assert "writewise_last_pull_return_seconds 12.5" in text
    assert "durable" not in text
    tmp_path.chmod(0o777)
    write_pull(path, 99.0, 100.0)  # the directory was opened to others in the meantime
    assert "others can write" in capsys.readouterr().err
    assert path.read_text() == text
    write_pull(None, 1.0, 1.0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root needs no permission")
def test_it_needs_root(capsys) -> None:
    assert main(["watch"]) != 0
    assert "needs root" in capsys.readouterr().err


def test_a_unit_writes_records_where_the_option_says(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for where, shown, is_local in (
        ("records", f"--record {tmp_path}/records ", True),
        ("s3://bucket/a/b/", "--record s3://bucket/a/b ", False),
    ):
        assert main(["watch", ".", "--record", where, "--print-unit"]) == 0
        text = capsys.readouterr().out
        assert shown in text
        assert ("IPAddressDeny=any" in text) == is_local


def test_a_watch_that_only_writes_records_is_allowed(tmp_path, capsys) -> None:
    words = [str(tmp_path), "--record", str(tmp_path), "--listen", "off", "--print-unit"]
    assert main(["watch", *words]) == 0
    assert "--listen off" in capsys.readouterr().out
