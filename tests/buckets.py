# SPDX-License-Identifier: Apache-2.0
"""The bucket of a latency, the inverse of `contracts.stats.bucket_bounds_ns`."""

from __future__ import annotations

from contracts.stats import BUCKET_COUNT, SUB_BUCKETS, SUB_BUCKETS_LOG2


def bucket_index(latency_ns: int) -> int:
    """Return the index of the bucket for `latency_ns` (≥ 0)."""
    if latency_ns < SUB_BUCKETS:
        return latency_ns
    exponent = latency_ns.bit_length() - 1
    sub_bucket = (latency_ns >> (exponent - SUB_BUCKETS_LOG2)) - SUB_BUCKETS
    index = (exponent - SUB_BUCKETS_LOG2 + 1) * SUB_BUCKETS + sub_bucket
    return min(index, BUCKET_COUNT - 1)
