# SPDX-License-Identifier: Apache-2.0
"""A sample of a prefix, pulled from a server: listed as a study does, with the client check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.loading import load_contract
from contracts.shared.errors import UsageError
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import DEFAULT, by_name
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location
from profiler.study.request import StudyRequest
from profiler.study.study import plan_of
from tests.s3.conftest import BUCKET


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """100 objects of 1 KiB and 50 of 100 KiB."""
    root = tmp_path_factory.mktemp("sample")
    (root / BUCKET).mkdir()
    for number in range(150):
        size = 1024 if number % 3 else 102400
        (root / BUCKET / f"{number:03}").write_bytes(bytes(size))
    with S3Server(root) as server:
        yield server.endpoint_url


@pytest.fixture
def request_of_all(endpoint: str, tmp_path: Path) -> StudyRequest:
    return StudyRequest(
        location=Location(BUCKET, ""),
        destination=tmp_path,
        access=S3Access(endpoint, sign_requests=False),
        transfer=TransferSettings(),
        contract=load_contract(None),
        output=tmp_path / "results.json",
    )


def test_a_study_pulls_the_whole_or_a_sample_of_it(request_of_all: StudyRequest) -> None:
    whole = plan_of(request_of_all)
    assert (len(whole.objects), whole.whole_bytes) == (150, 0)
    sample = plan_of(replace(request_of_all, max_bytes=10**6))
    assert sample.bytes <= 10**6
    assert (sample.whole_objects, sample.whole_bytes) == (150, whole.bytes)
    small = sum(each.size_bytes == 1024 for each in sample.objects)
    assert small / len(sample.objects) == pytest.approx(2 / 3, abs=0.05)
    assert plan_of(replace(request_of_all, max_bytes=10**6)) == sample


def test_a_program_that_fetches_a_prefix_refuses_a_sample(request_of_all: StudyRequest) -> None:
    program = by_name("s5cmd")
    assert program.takes_prefixes and not DEFAULT.takes_prefixes
    with pytest.raises(UsageError, match="cannot be used with s5cmd"):
        plan_of(replace(request_of_all, client=program, max_bytes=10**6))
