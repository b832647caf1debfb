"""What S3 says of an object, asked for and kept in botocore's words."""

from __future__ import annotations

from typing import Any

from profiler.pull.clients.interface import Answer

#: Of an answer, beside its checksums: what a verification reads.
_KEPT_FIELDS = ("ContentLength", "ETag", "ServerSideEncryption", "SSECustomerAlgorithm")


def head_object(client: Any, bucket: str, key: str, part: int | None = None) -> Answer:
    """HeadObject's answer, with the checksum; of one `part` if wanted. Raises botocore's."""
    which: dict[str, Any] = {} if part is None else {"PartNumber": part}
    answer: Answer = client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED", **which)
    return answer


def kept(answer: Answer) -> Answer:
    """Of an answer what a verification reads."""
    return {
        name: value
        for name, value in answer.items()
        if name in _KEPT_FIELDS or name.startswith("Checksum")
    }


def error_of(code: str) -> Exception:
    """botocore's exception for S3's `code`, for what another library, or no answer, told."""
    from botocore.exceptions import ClientError

    error: Exception = ClientError({"Error": {"Code": code}}, "GetObject")
    return error
