"""The evidence of real pulls from a server whose latency and rate are known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profiler.lab.s3_server import S3Server
from profiler.measured_pull import measure_pull
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.evidence import Limit, PullEvidence, gather
from profiler.pull.source import Location, list_plan
from tests.s3.conftest import BUCKET, MIB, pool_for


def evidence_of(
    root: Path, destination: Path, latency_s: float, rate_bytes_per_s: float
) -> PullEvidence:
    with S3Server(
        root, first_byte_latency_s=latency_s, rate_bytes_per_s=rate_bytes_per_s
    ) as server:
        url = server.endpoint_url
        plan = list_plan(S3Access(url), Location(BUCKET, ""))
        with pool_for(url, workers=1, max_concurrency=2) as pool:
            measured = measure_pull(pool, plan, Destination(destination), None)
    requests = measured.result.requests
    assert requests is not None
    assert requests.count == len(plan.objects)  # one GET each: sizes are the listing's
    evidence = gather(measured.result, 1, None)
    assert evidence is not None
    return evidence


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / BUCKET).mkdir()
    return tmp_path


def test_small_objects_behind_a_latency_are_held_up_by_it(root: Path, destination: Path) -> None:
    for number in range(20):
        (root / BUCKET / f"{number}").write_bytes(b"x" * 1000)
    evidence = evidence_of(root, destination, 0.1, 90e6)
    assert evidence.limit is Limit.LATENCY
    assert 0.1 <= evidence.mean_first_byte_seconds < 0.2
    assert evidence.first_byte_share > 0.9


def test_large_objects_on_slow_connections_are_held_up_by_them(
    root: Path, destination: Path
) -> None:
    for number in range(4):
        (root / BUCKET / f"{number}").write_bytes(os.urandom(4 * MIB))
    evidence = evidence_of(root, destination, 0.01, 8 * MIB)
    assert evidence.limit is Limit.BANDWIDTH
    assert evidence.first_byte_share < 0.3
