# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from contracts.shared.errors import UsageError
from profiler.cli.main import main
from profiler.pull.settings import TransferSettings, parse_settings, settings_for


def test_the_defaults_are_boto3s() -> None:
    from boto3.s3.transfer import TransferConfig

    theirs, ours = TransferConfig(), TransferSettings()
    assert ours.max_concurrency == theirs.max_request_concurrency
    assert ours.multipart_chunksize == theirs.multipart_chunksize
    assert ours.io_chunksize == theirs.io_chunksize
    assert ours.max_io_queue == theirs.max_io_queue_size
    assert ours.multipart_threshold == theirs.multipart_threshold
    assert ours.use_threads == theirs.use_threads


def test_boto3_gets_every_setting_and_the_classic_client() -> None:
    config = TransferSettings(3, 2**24, 2**20, 7, 2**22, False).to_transfer_config()
    assert config.max_request_concurrency == 3
    assert config.multipart_chunksize == 2**24
    assert config.io_chunksize == 2**20
    assert config.max_io_queue_size == 7
    assert config.multipart_threshold == 2**22
    assert config.use_threads is False
    assert config.preferred_transfer_client == "classic"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", TransferSettings()),
        ("max_concurrency=20", TransferSettings(max_concurrency=20)),
        (
            "multipart_chunksize=16MiB, io_chunksize=1MiB,",
            TransferSettings(multipart_chunksize=2**24, io_chunksize=2**20),
        ),
        (
            "multipart_threshold=1MiB,use_threads=false",
            TransferSettings(multipart_threshold=2**20, use_threads=False),
        ),
        ("io_chunksize=65536,max_io_queue=1k", TransferSettings(10, 8 * 2**20, 65536, 1000)),
    ],
)
def test_settings_are_read_and_written(text: str, settings: TransferSettings) -> None:
    assert parse_settings(text) == settings
    assert parse_settings(str(settings)) == settings


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(UsageError) as error:
        parse_settings(
            "max_concurency=1,io_chunksize=1furlong,max_io_queue=0,"
            "multipart_chunksize=19GiB,use_threads=maybe,max_concurrency=2,max_concurrency=3"
        )
    for problem in (
        "unknown transfer setting 'max_concurency', did you mean 'max_concurrency'?",
        "io_chunksize: invalid size '1furlong'",
        "max_io_queue: use 1 to 1000000",
        "multipart_chunksize: use 64KiB to 10GiB",
        "max_concurrency is given twice",
        "use_threads: invalid value 'maybe', use true or false",
    ):
        assert problem in error.value.message


def test_what_is_written_as_a_document_is_read_from_a_file(tmp_path: Path) -> None:
    settings = TransferSettings(339, 400619332, 15096201, 122, 2**24, False)
    path = tmp_path / "transfer.json"
    path.write_text(json.dumps({"settings": asdict(settings)}))
    assert parse_settings(str(path)) == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[1]", "has no object `settings`"),
        ('{"settings": 3}', "has no object `settings`"),
        ('{"settings": {"max_io_queue": -1}}', "max_io_queue: invalid count '-1'"),
        ('{"settings": {"max_io_queue": [1]}}', "max_io_queue: invalid count '[1]'"),
        ('{"settings": {"io_chunksize": 1}}', "io_chunksize: use 1kB to 1GiB"),
        ('{"settings": {"use_threads": 1}}', "use_threads: invalid value '1', use true or false"),
        ('{"settings": {"max_io_queue": true}}', "max_io_queue: invalid count 'true'"),
        ('{"settings": {"max_io_queue": 1, "max_io_queue": 2}}', "'max_io_queue' is given twice"),
        ('{"settings": {"speed\\u001b": 1}}', "unknown transfer setting"),
    ],
)
def test_a_bad_file_is_reported_by_name(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "transfer.json"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        parse_settings(str(path))
    assert str(path) in error.value.message
    assert problem in error.value.message
    assert "\x1b" not in error.value.message


def test_settings_that_were_found_for_another_client_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "transfer.json"
    path.write_text(json.dumps({"settings": {"max_concurrency": 40}, "client": "obstore"}))
    assert parse_settings(str(path)) == TransferSettings(40)
    for given in (None, "obstore"):
        assert settings_for(str(path), given) == (TransferSettings(40), "obstore")
    with pytest.raises(
        UsageError, match="settings for the client 'obstore', not for direct"
    ) as error:
        settings_for(str(path), "direct")
    assert "use --client 'obstore'" in error.value.hint


def test_settings_of_no_client_are_for_the_one_that_is_given(tmp_path: Path) -> None:
    path = tmp_path / "transfer.json"
    path.write_text('{"settings": {}}')
    for text in ("", str(path)):
        assert settings_for(text, "crt") == (TransferSettings(), "crt")
        assert settings_for(text, None) == (TransferSettings(), None)


@pytest.mark.parametrize(
    ("words", "client", "problem"),
    [
        ("pull", "speedy\x1b", r"unknown pull client 'speedy\x1b'"),
        ("sweep", "speedy\x1b", r"unknown pull client 'speedy\x1b'"),
        ("pull --client direct", "boto3", "settings for the client 'boto3', not for direct"),
        ("sweep --client direct", "boto3", "settings for the client 'boto3', not for direct"),
        ("transfer tune", "obstore", "settings for the client 'obstore', not for transfer-manager"),
        ("sweep --space transfer", "obstore", "settings of transfer-manager, not of 'obstore'"),
    ],
)
def test_a_pull_takes_the_client_of_the_file_or_refuses_it(
    tmp_path: Path,
    words: str,
    client: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("profiler.requirements.require", lambda *names: None)
    path = tmp_path / "transfer.json"
    path.write_text(json.dumps({"settings": {}, "client": client}))
    assert main(f"{words} s3://bucket/key {tmp_path} --transfer {path}".split()) == 2
    assert problem in capsys.readouterr().err
