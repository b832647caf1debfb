# SPDX-License-Identifier: Apache-2.0
"""The evidence of real pulls from a server whose latency and rate are known."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import pytest

from profiler.lab.s3_faults import Fault
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.clients import ranged_get
from profiler.pull.clients.direct import DirectClient
from profiler.pull.clients.ranged_get import write_at
from profiler.pull.destination import Destination
from profiler.pull.evidence import Limit, PullEvidence, gather
from profiler.pull.measured import measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from tests.s3.conftest import BUCKET, MIB, pool_for


def evidence_of(
    root: Path,
    destination: Path,
    latency_s: float,
    rate_bytes_per_s: float,
    faults: tuple[Fault, ...] = (),
) -> PullEvidence:
    with S3Server(
        root,
        first_byte_latency_s=latency_s,
        rate_bytes_per_s=rate_bytes_per_s,
        faults=faults,
    ) as server:
        url = server.endpoint_url
        plan = list_plan(S3Access(url), Location(BUCKET, ""))
        with pool_for(url, workers=1, max_concurrency=2) as pool:
            measured = measure_pull(pool, plan, Destination(destination), None)
    requests = measured.result.requests
    assert requests is not None
    assert requests.count == len(plan.objects)  # one GET each: the sizes come from the listing
    evidence = gather(measured.result, 1, None)
    assert evidence is not None
    assert evidence.host_busy_share is not None  # of other programs on the host
    return dataclasses.replace(evidence, host_busy_share=None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / BUCKET).mkdir()
    return tmp_path


def test_a_throttled_pull_is_limited_by_it_and_latency_is_of_the_last_attempts(
    root: Path, destination: Path
) -> None:
    """Each of 4 requests is refused once; botocore then waits for up to a second."""
    for number in range(4):
        (root / BUCKET / f"{number}").write_bytes(b"x" * 1000)
    faults = tuple(Fault("refuse", str(number), times=1) for number in range(4))
    evidence = evidence_of(root, destination, 0.005, 90e6, faults)
    assert evidence.slow_downs == 4
    assert evidence.limit is Limit.THROTTLED
    assert evidence.mean_first_byte_s < 0.1


def test_the_time_that_blocks_wait_to_be_written_is_counted_separately(
    root: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The destination takes 20 ms for each of four blocks, without probes or root."""

    def write_slowly(descriptor: int, block: bytes, position: int) -> None:
        time.sleep(0.02)
        write_at(descriptor, block, position)

    monkeypatch.setattr(ranged_get, "write_at", write_slowly)
    (root / BUCKET / "key").write_bytes(os.urandom(MIB))
    requests: list[tuple[int, int, int]] = []
    reads: list[tuple[int, int]] = []
    with S3Server(root, first_byte_latency_s=None, rate_bytes_per_s=None) as server:
        access = S3Access(server.endpoint_url)
        (remote,) = list_plan(access, Location(BUCKET, "")).objects
        client = DirectClient(access, TransferSettings(io_chunksize=MIB // 4))
        client.observe(lambda *times: requests.append(times), lambda *times: reads.append(times))
        client.download(BUCKET, remote, str(destination / "key"), lambda _: None)
    assert [each[1:] for each in requests] == [(0, 0)]  # no attempt was repeated
    assert len(reads) == 5  # the last one reads the end of the body
    assert reads[0][1] == 0
    assert all(written_ns >= 20e6 for _, written_ns in reads[1:])


def test_small_objects_with_latency_are_limited_by_it(root: Path, destination: Path) -> None:
    for number in range(20):
        (root / BUCKET / f"{number}").write_bytes(b"x" * 1000)
    evidence = evidence_of(root, destination, 0.1, 90e6)
    assert evidence.limit is Limit.LATENCY
    assert 0.1 <= evidence.mean_first_byte_s < 0.2
    assert evidence.first_byte_share > 0.9


def test_large_objects_on_slow_connections_are_limited_by_them(
    root: Path, destination: Path
) -> None:
    for number in range(4):
        (root / BUCKET / f"{number}").write_bytes(os.urandom(4 * MIB))
    evidence = evidence_of(root, destination, 0.01, 8 * MIB)
    assert evidence.limit is Limit.BANDWIDTH
    assert evidence.first_byte_share < 0.3
