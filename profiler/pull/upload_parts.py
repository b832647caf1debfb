"""Checksums of what was uploaded in parts: a hash of the parts' hashes, and how many they were.

S3 has them as `…-N`: composite checksums, and ETags (MD5). They can be computed again from the
parts' sizes, which HeadObject tells of each by its number. All but the last are equal for nearly
every uploader, so the first one's size is asked for, and the others', several at a time, only
where that leads to another hash. Source: Amazon S3 user guide, "Checking object integrity", and API
reference, HeadObject, partNumber.
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

#: The size of a part of the object by its number from 1 on, None where the server does not tell.
#: Called from several threads at a time.
PartBytes = Callable[[int], "int | None"]

_COMPOSITE = re.compile(r"([0-9A-Za-z+/=]+)-([0-9]{1,5})")
_MAX_PARTS = 10_000  # Amazon S3 user guide, "Amazon S3 multipart upload limits"
_ASKED_AT_ONCE = 16


@dataclass(frozen=True)
class Composite:
    """A hash of `count` hashes that S3 has of an object, each made by `make_hash`."""

    name: str
    expected: bytes
    count: int
    make_hash: MakeHash

    def compare(self, descriptor: int, size_bytes: int, part_bytes: PartBytes) -> bool | None:
        """Whether an open file of the object's size has this hash; None if that cannot be told.

        Raises OSError, and what `part_bytes` raises.
        """
        first = part_bytes(1)
        if first is None or (first >= size_bytes and self.count > 1):  # partNumber was ignored
            return None
        guessed = _equal_sizes(size_bytes, first, self.count)
        if guessed and self._of(descriptor, guessed) == self.expected:
            return True
        sizes = [first, *self._ask_others(part_bytes)]
        if sum(sizes) != size_bytes:
            return None
        return sizes != guessed and self._of(descriptor, sizes) == self.expected

    def _ask_others(self, part_bytes: PartBytes) -> list[int]:
        """The sizes of all parts but the first; 0 for what is not told."""
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as threads:
            return [told or 0 for told in threads.map(part_bytes, range(2, self.count + 1))]

    def _of(self, descriptor: int, sizes: Sequence[int]) -> bytes:
        whole, start = self.make_hash(), 0
        for size_bytes in sizes:
            whole.update(digest(descriptor, self.make_hash, start, size_bytes))
            start += size_bytes
        return whole.digest()


def find_composite(head: Mapping[str, Any], *, etag_is_md5: bool) -> Composite | None:
    """The composite checksum that HeadObject tells, else the ETag; None when it is neither."""
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
    """The parts' sizes if all but the last are as the first; none if that cannot be."""
    last = size_bytes - first * (count - 1)
    return [first] * (count - 1) + [last] if 0 < last <= first else []
