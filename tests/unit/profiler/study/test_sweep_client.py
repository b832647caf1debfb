# SPDX-License-Identifier: Apache-2.0
"""Which client a sweep pulls with."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.loading import load_contract
from contracts.shared.errors import UsageError
from profiler.cli.main import build_parser
from profiler.cli.sweep import request_of
from profiler.study.request import StudyRequest


def request(tmp_path: Path, *words: str) -> StudyRequest:
    arguments = build_parser().parse_args(["sweep", "s3://bucket/", str(tmp_path), *words])
    return request_of(arguments, load_contract(None))


@pytest.mark.parametrize(
    ("words", "client"),
    [
        ([], "direct"),
        (["--client", "boto3"], "boto3"),
        (["--space", "transfer,vm"], "transfer-manager"),
        (["--space", "transfer", "--client", "transfer-manager"], "transfer-manager"),
    ],
)
def test_it_is_the_one_whose_settings_are_varied_or_that_was_named(
    tmp_path: Path, words: list[str], client: str
) -> None:
    assert request(tmp_path, *words).client.name == client


def test_it_is_the_one_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "transfer.json"
    path.write_text('{"settings": {"max_concurrency": 7}, "client": "boto3"}')
    made = request(tmp_path, "--transfer", str(path))
    assert (made.client.name, made.transfer.max_concurrency) == ("boto3", 7)
    with pytest.raises(UsageError, match="not of 'boto3'"):
        request(tmp_path, "--transfer", str(path), "--space", "transfer")
