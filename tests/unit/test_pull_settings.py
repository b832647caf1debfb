from __future__ import annotations

import pytest

from contracts.errors import UsageError
from profiler.pull.settings import TransferSettings, parse_settings


def test_the_defaults_are_boto3s() -> None:
    from boto3.s3.transfer import TransferConfig

    theirs, ours = TransferConfig(), TransferSettings()
    assert ours.max_concurrency == theirs.max_request_concurrency
    assert ours.multipart_chunksize == theirs.multipart_chunksize
    assert ours.io_chunksize == theirs.io_chunksize
    assert ours.max_io_queue == theirs.max_io_queue_size


def test_boto3_gets_every_setting_and_the_classic_client() -> None:
    config = TransferSettings(3, 2**24, 2**20, 7).to_transfer_config()
    assert config.max_request_concurrency == 3
    assert config.multipart_chunksize == 2**24
    assert config.io_chunksize == 2**20
    assert config.max_io_queue_size == 7
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
        ("io_chunksize=65536,max_io_queue=1k", TransferSettings(10, 8 * 2**20, 65536, 1000)),
    ],
)
def test_settings_are_read_and_written(text: str, settings: TransferSettings) -> None:
    assert parse_settings(text) == settings
    assert parse_settings(str(settings)) == settings


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(UsageError) as error:
        parse_settings(
            "max_concurency=1,io_chunksize=1furlong,max_io_queue=0,"
            "multipart_chunksize=9GiB,max_concurrency=2,max_concurrency=3"
        )
    for problem in (
        "'max_concurency' is no transfer setting, did you mean 'max_concurrency'?",
        "io_chunksize: '1furlong' is no size",
        "max_io_queue: use 1 to 1000000",
        "multipart_chunksize: use 64KiB to 5GiB",
        "max_concurrency is given twice",
    ):
        assert problem in error.value.message
