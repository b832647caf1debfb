# SPDX-License-Identifier: Apache-2.0
"""The hashes that S3 stores for objects, and how to compute them for a file."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from typing import Protocol

_BLOCK_BYTES = 1 << 20


class Hash(Protocol):
    """The interface of hashlib's hashes."""

    def update(self, data: bytes, /) -> None:
        """Add data."""

    def digest(self) -> bytes:
        """Return the hash of all data added."""


class _Crc:
    """A CRC function with the interface of a hash; the digest is big-endian, as in S3."""

    def __init__(self, function: Callable[[bytes, int], int], width_bytes: int) -> None:
        self._function, self._width_bytes, self._value = function, width_bytes, 0

    def update(self, data: bytes, /) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._width_bytes, "big")


def _crc32c() -> Hash:
    from awscrt import checksums

    return _Crc(checksums.crc32c, 4)


def _crc64nvme() -> Hash:
    from awscrt import checksums

    return _Crc(checksums.crc64nvme, 8)


def md5() -> Hash:
    """Return an MD5 hash, S3's ETag: it detects damage, not forgery."""
    return hashlib.md5(usedforsecurity=False)


MakeHash = Callable[[], Hash]
#: HeadObject's field, name and constructor of each hash, the cheapest first.
CHECKSUMS: tuple[tuple[str, str, MakeHash], ...] = (
    ("ChecksumCRC64NVME", "CRC-64/NVME", _crc64nvme),
    ("ChecksumCRC32C", "CRC-32C", _crc32c),
    ("ChecksumCRC32", "CRC-32", lambda: _Crc(zlib.crc32, 4)),
    ("ChecksumSHA1", "SHA-1", lambda: hashlib.sha1(usedforsecurity=False)),
    ("ChecksumSHA256", "SHA-256", hashlib.sha256),
    ("ChecksumSHA512", "SHA-512", hashlib.sha512),
)


def digest(descriptor: int, make_hash: MakeHash, start: int = 0, size_bytes: int = 2**63) -> bytes:
    """Return the hash of at most `size_bytes` of an open file from `start`. Raises OSError."""
    hasher, position, end = make_hash(), start, start + size_bytes
    while block := os.pread(descriptor, min(_BLOCK_BYTES, end - position), position):
        hasher.update(block)
        position += len(block)
    return hasher.digest()
