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

from profiler.pull.verification import verify
from profiler.pull.worker import _verify_file

CONTENT = os.urandom(3 * 2**20 + 5)
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
    assert verify(file, good) == (method, "")
    bad = head(
        ChecksumType="FULL_OBJECT", **{field: encoded(digest[:-1] + bytes([digest[-1] ^ 1]))}
    )
    assert verify(file, bad) == (
        method,
        f"differs from the object: its {method} checksum is another",
    )


def test_without_checksum_the_etag_is_compared(file: int) -> None:
    assert verify(file, head()) == ("MD5", "")
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
    assert verify(file, head(**fields)) == ("size only", "")


def test_an_encryption_by_s3_itself_leaves_the_etag(file: int) -> None:
    assert verify(file, head(ServerSideEncryption="AES256")) == ("MD5", "")


def test_another_size_is_told(file: int) -> None:
    size = len(CONTENT)
    assert verify(file, head(ContentLength=size + 1)) == (
        "size only",
        f"has {size} bytes where the object has {size + 1}",
    )


def test_a_part_that_became_something_else_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "part")
    writer = os.open(tmp_path / "part", os.O_RDWR)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="no regular file"):
            _verify_file(directory, "part", {"ContentLength": 0})
    finally:
        os.close(directory)
        os.close(writer)
