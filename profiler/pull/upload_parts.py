# SPDX-License-Identifier: Apache-2.0
"""Checksums of objects uploaded in parts: a hash of the parts' hashes, and their number.

S3 writes them as `…-N`: composite checksums, and ETags (MD5). To recompute them one needs the sizes
of the parts, which HeadObject reports by part number. Nearly all uploaders make all parts but the
last equal, so the size of the first is requested; the others, several at a time, only if the hash
does not match. Sources: Amazon S3 user guide, "Checking object integrity"; API reference,
HeadObject, partNumber.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from profiler.pull.hashes import CHECKSUMS, MakeHash, digest, md5

#: Returns the size of a part by its number, which starts at 1; None if the server does not report
#: it. Called from several threads at a time.
PartBytes = Callable[[int], "int | None"]

_COMPOSITE = re.compile(r"([0-9A-Za-z+/=]+)-([0-9]{1,5})")
_MAX_PARTS = 10_000  # Amazon S3 user guide, "Amazon S3 multipart upload limits"
_ASKED_AT_ONCE = 16


@dataclass(frozen=True)
class Composite:
    """S3's hash of an object: a hash of `count` hashes, all made by `make_hash`."""

    name: str
    expected: bytes
    count: int
    make_hash: MakeHash

    def compare(self, descriptor: int, size_bytes: int, part_bytes: PartBytes) -> bool | None:
        """Return whether an open file of the object's size has this hash; None if unknown.

        Raises OSError, and what `part_bytes` raises.
        """
        first = part_bytes(1)
        # A first part as large as the object means that the server ignores partNumber.
        if first is None or (first >= size_bytes and self.count > 1):
            return None
        guessed = _equal_sizes(size_bytes, first, self.count)
        if guessed and self._of(descriptor, guessed) == self.expected:
            return True
        sizes = [first, *self._ask_others(part_bytes)]
        if sum(sizes) != size_bytes:
            return None
        return sizes != guessed and self._of(descriptor, sizes) == self.expected

    def _ask_others(self, part_bytes: PartBytes) -> list[int]:
        """Return the sizes of all parts but the first; 0 for an unknown size."""
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as threads:
            return [found or 0 for found in threads.map(part_bytes, range(2, self.count + 1))]

    def _of(self, descriptor: int, sizes: Sequence[int]) -> bytes:
        whole, start = self.make_hash(), 0
        for size_bytes in sizes:
            whole.update(digest(descriptor, self.make_hash, start, size_bytes))
            start += size_bytes
        return whole.digest()


def find_composite(head: Mapping[str, Any], *, etag_is_md5: bool) -> Composite | None:
    """Return HeadObject's composite checksum, else the ETag if it is one, else None."""
    for field, name, make_hash in CHECKSUMS:
        found = _COMPOSITE.fullmatch(str(head.get(field, "")))
        if found:
            return _composite(name, found, base64.b64decode, make_hash)
    found = _COMPOSITE.fullmatch(str(head.get("ETag", "")).strip('"'))
    if found and etag_is_md5:
        return _composite("MD5", found, bytes.fromhex, md5)
    return None


def _composite(
    name: str, found: re.Match[str], decode: Callable[[str], bytes], make_hash: MakeHash
) -> Composite | None:
    try:
        expected = decode(found.group(1))
    except (binascii.Error, ValueError):
        return None
    count = int(found.group(2))
    if not 0 < count <= _MAX_PARTS:
        return None
    return Composite(f"{name} of {count} parts", expected, count, make_hash)


def _equal_sizes(size_bytes: int, first: int, count: int) -> list[int]:
    """Return the sizes if all parts but the last equal the first; [] if that is impossible."""
    last = size_bytes - first * (count - 1)
    return [first] * (count - 1) + [last] if 0 < last <= first else []
