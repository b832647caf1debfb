# SPDX-License-Identifier: Apache-2.0
"""Whether an ambiguous problem concerns one object or the whole pull: the bucket is asked.

Ambiguous are a HEAD refused without an error code, an unknown code, and a connection that ends
without an answer. If S3 still lists the key, the other objects may still arrive.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from profiler.pull.access import S3Access
from profiler.pull.errors import Explanation, explain

#: How long a good answer holds, so that thousands of refused objects do not cost a request each.
VALID_S = 1.0


class ProblemScope:
    """Resolves ambiguous Explanations; it makes its client when the first one comes."""

    def __init__(self, access: S3Access) -> None:
        self._access = access
        self._client: Any = None
        self._good_until_s = 0.0

    def resolve(self, problem: Explanation, bucket: str, key: str) -> Explanation:
        """Return the problem as one object's, or what S3 says about the whole bucket.

        Takes as long as boto3's retries if S3 no longer answers.
        """
        if time.monotonic() >= self._good_until_s:
            bucket_problem = self._ask(bucket, key)
            if bucket_problem is not None:
                return replace(bucket_problem, concerns_one_object=False, is_ambiguous=False)
            self._good_until_s = time.monotonic() + VALID_S
        return replace(problem, concerns_one_object=True, is_ambiguous=False)

    def _ask(self, bucket: str, key: str) -> Explanation | None:
        """Return why S3 does not list the key; None if it answers, even if only that it is busy."""
        try:
            if self._client is None:
                self._client = self._access.make_client()
            self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        except Exception as error:  # botocore's, and those of what it uses
            found = explain(error, bucket)
            return None if found.concerns_one_object else found
        return None
