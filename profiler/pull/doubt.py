"""Whether an error that may be one object's or all objects' is of all: the bucket is asked.

A refusal of a HEAD without its code, a code that is not known, a connection that ends unanswered:
where S3 still lists the key, its other objects may still arrive.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from profiler.pull.access import S3Access
from profiler.pull.errors import Explanation, explain

#: So long a good answer holds: thousands of refused objects take no request each.
VALID_S = 1.0


class Doubts:
    """Settles Explanations that are in doubt; makes its client when the first one is."""

    def __init__(self, access: S3Access) -> None:
        self._access = access
        self._client: Any = None
        self._good_until_s = 0.0

    def settle(self, problem: Explanation, bucket: str, key: str) -> Explanation:
        """The problem with its doubt gone: one object's, or what S3 says about all of them.

        Takes as long as boto3 tries where S3 answers no more.
        """
        if time.monotonic() >= self._good_until_s:
            of_all = self._ask(bucket, key)
            if of_all is not None:
                return replace(of_all, concerns_one_object=False, is_in_doubt=False)
            self._good_until_s = time.monotonic() + VALID_S
        return replace(problem, concerns_one_object=True, is_in_doubt=False)

    def _ask(self, bucket: str, key: str) -> Explanation | None:
        """Why S3 does not list the key; None where it answers, be it that it is busy."""
        try:
            if self._client is None:
                self._client = self._access.make_client()
            self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        except Exception as error:  # of botocore and what it uses
            found = explain(error, bucket)
            return None if found.concerns_one_object else found
        return None
