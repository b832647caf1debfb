# SPDX-License-Identifier: Apache-2.0
"""The sizes of a pull's objects: a histogram, and the share of requests for small ones."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

#: boto3 fetches smaller objects with one request, larger ones in ranges of this size.
SMALL_BYTES = 8 * 2**20
#: 2 KiB to 4 GiB by factors of 8.
_EDGES_BYTES = tuple(2**power for power in range(11, 33, 3))


@dataclass(frozen=True)
class SizeBucket:
    """The objects of at least `from_bytes` and less than `below_bytes` (None: no limit)."""

    from_bytes: int
    below_bytes: int | None
    objects: int
    bytes: int


def histogram(sizes_bytes: Sequence[int]) -> tuple[SizeBucket, ...]:
    """Return all buckets by size, including empty ones."""
    counts, sums = [0] * (len(_EDGES_BYTES) + 1), [0] * (len(_EDGES_BYTES) + 1)
    for size_bytes in sizes_bytes:
        bucket = bisect.bisect_right(_EDGES_BYTES, size_bytes)
        counts[bucket] += 1
        sums[bucket] += size_bytes
    edges = zip((0, *_EDGES_BYTES), (*_EDGES_BYTES, None), counts, sums)
    return tuple(SizeBucket(*bucket) for bucket in edges)


def small_request_share(sizes_bytes: Sequence[int], requests: int) -> float:
    """Return the share (0 to 1) of `requests` that were for objects below SMALL_BYTES.

    Larger objects took at most one request per range of that size, and no more than are left after
    one request for each small object.
    """
    large = [size_bytes for size_bytes in sizes_bytes if size_bytes >= SMALL_BYTES]
    ranges = sum(-(-size_bytes // SMALL_BYTES) for size_bytes in large)
    small = len(sizes_bytes) - len(large)
    return 1 - min(ranges, max(0, requests - small)) / requests if small and requests else 0.0
