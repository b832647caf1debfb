"""How large the objects of a pull are: a histogram, and what of its requests small ones are."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

#: Below it boto3 fetches an object by one request; larger ones it takes for ranges of this size.
SMALL_BYTES = 8 * 2**20
#: 2 KiB to 4 GiB by factors of 8.
_EDGES_BYTES = tuple(2**power for power in range(11, 33, 3))


@dataclass(frozen=True)
class SizeBucket:
    """The objects of `from_bytes` or more, below `below_bytes` (None: without end)."""

    from_bytes: int
    below_bytes: int | None
    objects: int
    bytes: int


def histogram(sizes_bytes: Sequence[int]) -> tuple[SizeBucket, ...]:
    """All buckets, by size; those without objects too."""
    counts, sums = [0] * (len(_EDGES_BYTES) + 1), [0] * (len(_EDGES_BYTES) + 1)
    for size_bytes in sizes_bytes:
        bucket = bisect.bisect_right(_EDGES_BYTES, size_bytes)
        counts[bucket] += 1
        sums[bucket] += size_bytes
    edges = zip((0, *_EDGES_BYTES), (*_EDGES_BYTES, None), counts, sums)
    return tuple(SizeBucket(*bucket) for bucket in edges)


def small_request_share(sizes_bytes: Sequence[int], requests: int) -> float:
    """The share (0 to 1) of `requests` that objects below SMALL_BYTES took.

    The others took at most a request for each range of that size, and what small ones left.
    """
    large = [size_bytes for size_bytes in sizes_bytes if size_bytes >= SMALL_BYTES]
    ranges = sum(-(-size_bytes // SMALL_BYTES) for size_bytes in large)
    small = len(sizes_bytes) - len(large)
    return 1 - min(ranges, max(0, requests - small)) / requests if small and requests else 0.0
