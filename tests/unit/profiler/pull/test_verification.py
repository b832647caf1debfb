# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from awscrt import checksums

from profiler.pull.source import RemoteObject
from profiler.pull.verification import verify
from profiler.pull.worker import VerifyJob, verify_file

MIB = 2**20
CONTENT = os.urandom(3 * MIB + 5)
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def head(**fields: Any) -> dict[str, Any]:
    return {"ContentLength": len(CONTENT), "ETag": f'"{MD5}"', **fields}


def encoded(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


CHECKSUMS = {
    "CRC-64/NVME": ("ChecksumCRC64NVME", checksums.crc64nvme(CONTENT).to_bytes(8, "big")),
    "CRC-32C": ("ChecksumCRC32C", checksums.crc32c(CONTENT).to_bytes(4, "big")),
    "CRC-32": ("ChecksumCRC32", zlib.crc32(CONTENT).to_bytes(4, "big")),
    "SHA-1": ("ChecksumSHA1", hashlib.sha1(CONTENT).digest()),
    "SHA-256": ("ChecksumSHA256", hashlib.sha256(CONTENT).digest()),
    "SHA-512": ("ChecksumSHA512", hashlib.sha512(CONTENT).digest()),
}


@pytest.mark.parametrize("method", CHECKSUMS)
def test_each_checksum_is_compared(file: int, method: str) -> None:
    field, digest = CHECKSUMS[method]
    good = head(ChecksumType="FULL_OBJECT", **{field: encoded(digest)})
    assert verify(file, good) == (method, None)
    bad = head(
        ChecksumType="FULL_OBJECT", **{field: encoded(digest[:-1] + bytes([digest[-1] ^ 1]))}
    )
    assert verify(file, bad) == (
        method,
        f"the file differs from the object: its {method} checksum does not match",
    )


def test_without_checksum_the_etag_is_compared(file: int) -> None:
    assert verify(file, head()) == ("MD5", None)
    method, problem = verify(file, head(ETag='"' + "0" * 32 + '"'))
    assert method == "MD5"
    assert problem


@pytest.mark.parametrize(
    "fields",
    [
        {"ETag": f'"{MD5}-3"'},
        {"ServerSideEncryption": "aws:kms"},
        {"ServerSideEncryption": "aws:kms:dsse"},
        {"SSECustomerAlgorithm": "AES256"},
        {"ETag": '"x-3"', "ChecksumType": "COMPOSITE", "ChecksumCRC32": "AAAAAA==-3"},
        {"ETag": '"x-3"', "ChecksumCRC32": "AAAAAA==-3"},
        {"ETag": '"x-3"', "ChecksumType": "COMPOSITE", "ChecksumSHA256": "AAAA"},
    ],
)
def test_what_s3_gives_of_parts_or_encrypted_leaves_the_size(
    file: int, fields: dict[str, str]
) -> None:
    assert verify(file, head(**fields)) == ("size only", None)


def composite(sizes: list[int], name: str) -> bytes:
    """The hash of the hashes of these parts of CONTENT."""
    edges = [sum(sizes[:count]) for count in range(len(sizes) + 1)]
    parts = (CONTENT[start:end] for start, end in zip(edges, edges[1:]))
    return hashlib.new(name, b"".join(hashlib.new(name, part).digest() for part in parts)).digest()


@pytest.mark.parametrize(
    ("sizes", "asks"),
    [
        ([3 * MIB + 5], 1),
        ([2 * MIB, MIB + 5], 1),
        ([MIB, MIB, MIB, 5], 1),
        ([MIB, 2 * MIB, 5], 3),
        ([1, 3 * MIB + 4], 2),
    ],
)
def test_what_came_in_parts_is_compared_by_their_hashes(
    file: int, sizes: list[int], asks: int
) -> None:
    asked: list[int] = []

    def part_bytes(number: int) -> int:
        asked.append(number)
        return sizes[number - 1]

    count = len(sizes)
    etag = f'"{composite(sizes, "md5").hex()}-{count}"'
    assert verify(file, head(ETag=etag), part_bytes) == (f"MD5 of {count} parts", None)
    assert len(asked) == asks  # the others' only where the parts are unequal
    sha = base64.b64encode(composite(sizes, "sha256")).decode()
    fields = {"ETag": '"x"', "ChecksumType": "COMPOSITE", "ServerSideEncryption": "aws:kms"}
    good = head(**fields, ChecksumSHA256=f"{sha}-{count}")
    assert verify(file, good, part_bytes) == (f"SHA-256 of {count} parts", None)
    other = f'"{composite([len(CONTENT)], "sha1").hex()[:32]}-{count}"'
    assert verify(file, head(ETag=other), part_bytes)[1]


@pytest.mark.parametrize("count", [1001, 4000])
def test_a_difference_is_reported_for_any_number_of_parts(file: int, count: int) -> None:
    size_bytes = len(CONTENT) // (count - 1)
    sizes = [size_bytes] * (count - 1) + [len(CONTENT) - size_bytes * (count - 1)]
    hashes = {composite(sizes, "md5"): False, composite([len(CONTENT)], "md5"): True}
    for etag, is_problem in hashes.items():
        answer = head(ETag=f'"{etag.hex()}-{count}"')
        method, problem = verify(file, answer, lambda number: sizes[number - 1])
        assert (method, bool(problem)) == (f"MD5 of {count} parts", is_problem)


def test_at_most_the_parts_that_s3_allows_are_requested(file: int) -> None:
    etag = f'"{composite([len(CONTENT)], "md5").hex()}-10001"'
    assert verify(file, head(ETag=etag), lambda _: 1) == ("size only", None)


@pytest.mark.parametrize("size_bytes", [None, len(CONTENT), 1])
def test_parts_without_a_true_size_leave_only_the_size(file: int, size_bytes: int | None) -> None:
    etag = f'"{composite([len(CONTENT) - 1, 1], "md5").hex()}-2"'
    assert verify(file, head(ETag=etag), lambda _: size_bytes) == ("size only", None)


def test_an_encryption_by_s3_itself_leaves_the_etag(file: int) -> None:
    assert verify(file, head(ServerSideEncryption="AES256")) == ("MD5", None)


def test_another_size_is_reported(file: int) -> None:
    size = len(CONTENT)
    assert verify(file, head(ContentLength=size + 1)) == (
        "size only",
        f"the file has {size} bytes, the object {size + 1}",
    )


def test_a_part_replaced_by_another_kind_of_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "part")
    writer = os.open(tmp_path / "part", os.O_RDWR)
    directory = os.open(tmp_path, os.O_RDONLY)
    remote = RemoteObject("key", "key", 0, None)
    job = VerifyJob(0, "bucket", remote, str(tmp_path), "part", with_checksum=True, publish=False)
    try:
        with pytest.raises(OSError, match="not a regular file"):
            verify_file(directory, job, {"ContentLength": 0}, None)
    finally:
        os.close(directory)
        os.close(writer)
