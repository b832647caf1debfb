"""Whether the bytes on disk are the object: its size, and the checksum that S3 gives.

S3 gives a checksum of the whole object (x-amz-checksum-type FULL_OBJECT) for objects uploaded
with one, and an MD5 as ETag for those uploaded in one part without KMS or customer keys. A
composite checksum, or an ETag of parts, needs the part sizes of the upload, which S3 does not
tell: then the size alone is compared, and the result says so. Source: Amazon S3 user guide,
"Checking object integrity".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

SIZE_ONLY = "size only"
_BLOCK_BYTES = 1 << 20
_MD5 = re.compile(r"[0-9a-f]{32}")


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc:
    """A CRC function with the interface of a hash; the digest is big-endian, as S3 encodes it."""

    def __init__(self, function: Callable[[bytes, int], int], width_bytes: int) -> None:
        self._function, self._width_bytes, self._value = function, width_bytes, 0

    def update(self, data: bytes, /) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._width_bytes, "big")


def _crc32c() -> _Hash:
    from awscrt import checksums

    return _Crc(checksums.crc32c, 4)


def _crc64nvme() -> _Hash:
    from awscrt import checksums

    return _Crc(checksums.crc64nvme, 8)


#: HeadObject's field → name and maker of the hash; the cheapest to compute come first.
_CHECKSUMS: tuple[tuple[str, str, Callable[[], _Hash]], ...] = (
    ("ChecksumCRC64NVME", "CRC-64/NVME", _crc64nvme),
    ("ChecksumCRC32C", "CRC-32C", _crc32c),
    ("ChecksumCRC32", "CRC-32", lambda: _Crc(zlib.crc32, 4)),
    ("ChecksumSHA1", "SHA-1", lambda: hashlib.sha1(usedforsecurity=False)),
    ("ChecksumSHA256", "SHA-256", hashlib.sha256),
    ("ChecksumSHA512", "SHA-512", hashlib.sha512),
)


def verify(descriptor: int, head: Mapping[str, Any]) -> tuple[str, str]:
    """Compare an open file with HeadObject's answer: the method used, and the problem if any.

    The problem is empty when the file is the object. Raises OSError.
    """
    size_bytes, wanted_bytes = os.fstat(descriptor).st_size, int(head["ContentLength"])
    if size_bytes != wanted_bytes:
        return SIZE_ONLY, f"has {size_bytes} bytes where the object has {wanted_bytes}"
    method, expected, make_hash = _best_checksum(head)
    if make_hash is None or _digest(descriptor, make_hash()) == expected:
        return method, ""
    return method, f"differs from the object: its {method} checksum is another"


def forget_cached(descriptor: int) -> None:
    """Make the next reading of an open file come from its device.

    Only clean pages are dropped (mm/fadvise.c, v6.1), so the file is written back first; a file
    system in memory keeps its pages, which are all it has. Raises OSError.
    """
    os.fdatasync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _best_checksum(
    head: Mapping[str, Any],
) -> tuple[str, bytes, Callable[[], _Hash] | None]:
    if head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
        for field, name, make_hash in _CHECKSUMS:
            expected = _decode(str(head.get(field, "")))
            if expected:
                return name, expected, make_hash
    etag = str(head.get("ETag", "")).strip('"')
    if _MD5.fullmatch(etag) and not _etag_is_encrypted(head):
        return "MD5", bytes.fromhex(etag), lambda: hashlib.md5(usedforsecurity=False)
    return SIZE_ONLY, b"", None


def _decode(checksum: str) -> bytes:
    """The bytes of a base64 checksum; empty for none and for a composite one (`…-3`)."""
    try:
        return base64.b64decode(checksum, validate=True)
    except binascii.Error:
        return b""


def _etag_is_encrypted(head: Mapping[str, Any]) -> bool:
    is_kms = str(head.get("ServerSideEncryption", "")).startswith("aws:kms")
    return is_kms or "SSECustomerAlgorithm" in head


def _digest(descriptor: int, hasher: _Hash) -> bytes:
    position = 0
    while block := os.pread(descriptor, _BLOCK_BYTES, position):
        hasher.update(block)
        position += len(block)
    return hasher.digest()
