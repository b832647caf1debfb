# SPDX-License-Identifier: Apache-2.0
"""S3's answers about objects, as botocore parses them."""

from __future__ import annotations

from typing import Any

from profiler.pull.clients.interface import Answer

#: The fields of an answer that a verification reads, apart from checksums.
_KEPT_FIELDS = ("ContentLength", "ETag", "ServerSideEncryption", "SSECustomerAlgorithm")


def head_object(client: Any, bucket: str, key: str, part: int | None = None) -> Answer:
    """Return HeadObject's answer with the checksum, of one `part` if given.

    Raises botocore's exceptions.
    """
    which: dict[str, Any] = {} if part is None else {"PartNumber": part}
    answer: Answer = client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED", **which)
    return answer


def kept(answer: Answer) -> Answer:
    """Return the fields of an answer that a verification reads."""
    return {
        name: value
        for name, value in answer.items()
        if name in _KEPT_FIELDS or name.startswith("Checksum")
    }


def error_of(code: str) -> Exception:
    """Return botocore's exception for S3's `code`, or for an HTTP status without one."""
    from botocore.exceptions import ClientError

    answer: dict[str, Any] = {"Error": {"Code": code}}
    if code.isdigit():
        answer["ResponseMetadata"] = {"HTTPStatusCode": int(code)}
    error: Exception = ClientError(answer, "GetObject")
    return error
