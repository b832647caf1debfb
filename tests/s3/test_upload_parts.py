# SPDX-License-Identifier: Apache-2.0
"""Objects uploaded in parts are compared by the hash of their parts' hashes, as moto reports it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.measured import measure_pull
from profiler.pull.resume import find_missing
from profiler.pull.source import Location, PullPlan, list_plan
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import BUCKET, MIB, MotoBackend, pool_for

#: Key → sizes of the parts, checksum algorithm (of which moto's HeadObject then gives a value that
#: is not marked as composite, and its GetObject one that is). S3, and so moto, wants 5 MiB of all
#: but the last.
UPLOADS: dict[str, tuple[tuple[int, ...], str | None]] = {
    "equal": ((5 * MIB, 5 * MIB, 7), None),
    "unequal": ((6 * MIB, 5 * MIB, 5 * MIB, MIB), None),
    "one": ((1000,), None),
    "crc32": ((6 * MIB, 5 * MIB), "CRC32"),
}
METHODS = dict.fromkeys(
    ("MD5 of 1 parts", "CRC-32 of 2 parts", "MD5 of 3 parts", "MD5 of 4 parts"), 1
)


def upload(client: Any, key: str, sizes: tuple[int, ...], algorithm: str | None) -> None:
    chosen = {"ChecksumAlgorithm": algorithm} if algorithm else {}
    upload_id = client.create_multipart_upload(Bucket=BUCKET, Key=key, **chosen)["UploadId"]
    target = {"Bucket": BUCKET, "Key": key, "UploadId": upload_id}
    parts = []
    for number, size_bytes in enumerate(sizes, start=1):
        body = os.urandom(size_bytes)
        done = client.upload_part(**target, PartNumber=number, Body=body, **chosen)
        checksums = {name: done[name] for name in done if name.startswith(("ETag", "Checksum"))}
        parts.append({"PartNumber": number, **checksums})
    client.complete_multipart_upload(**target, MultipartUpload={"Parts": parts})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with MotoBackend({}).serve() as url:
        client = boto3.client("s3", endpoint_url=url)
        for key, (sizes, algorithm) in UPLOADS.items():
            upload(client, key, sizes, algorithm)
        yield url


@pytest.fixture(scope="module")
def pool(endpoint: str) -> Iterator[WorkerPool]:
    with pool_for(endpoint) as pool:
        yield pool


@pytest.fixture
def plan(pool: WorkerPool, endpoint: str) -> PullPlan:
    return list_plan(S3Access(endpoint), Location(BUCKET, ""))


def test_objects_uploaded_in_parts_are_verified_and_not_fetched_again(
    pool: WorkerPool, plan: PullPlan, destination: Path
) -> None:
    measured = measure_pull(pool, plan, Destination(destination), None)
    assert measured.failures == ()
    assert measured.verification.count_by_method == METHODS
    assert find_missing(pool, plan, Destination(destination)).missing.objects == ()
    for key in UPLOADS:
        with (destination / key).open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
    missing = find_missing(pool, plan, Destination(destination)).missing.objects
    assert sorted(remote.key for remote in missing) == sorted(UPLOADS)
