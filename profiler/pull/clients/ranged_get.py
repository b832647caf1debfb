# SPDX-License-Identifier: Apache-2.0
"""GetObject of an object or a range of it, written to its place in an open file.

botocore retries requests; this module resumes a body that breaks off.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field
from typing import Any

from profiler.pull.clients.answers import error_of
from profiler.pull.clients.interface import Answer, OnBytes
from profiler.pull.source import RemoteObject

_ATTEMPTS = 5  # as s3transfer's num_download_attempts


@dataclass(frozen=True)
class Target:
    """The object and the file of `descriptor`, which is written in blocks of `block_bytes`.

    Threads take turns with the lock `writing`: otherwise the kernel would make them wait inside
    their write calls, whose times a pull is judged by.
    """

    bucket: str
    remote: RemoteObject
    descriptor: int
    block_bytes: int
    writing: threading.Lock = field(default_factory=threading.Lock)


def get(client: Any, target: Target, part: range, on_bytes: OnBytes) -> Answer:
    """Fetch the bytes `part` of the object and return S3's first answer.

    Each request carries the listing's ETag (If-Match). Raises botocore's exceptions, s3transfer's
    RetriesExceededError if a body breaks off too often, and OSError.
    """
    from botocore.exceptions import IncompleteReadError
    from s3transfer.exceptions import RetriesExceededError
    from s3transfer.utils import S3_RETRYABLE_DOWNLOAD_ERRORS

    first: Answer | None = None
    position, last = part.start, None
    for _ in range(_ATTEMPTS):
        on_bytes(0)  # raises if the part is no longer needed
        try:
            answer = client.get_object(**_arguments(target, range(position, part.stop)))
            _check(answer, target.remote, range(position, part.stop))
            first = first or answer
            with contextlib.closing(answer["Body"]) as body:
                while block := body.read(target.block_bytes):
                    with target.writing:
                        write_at(target.descriptor, block, position)
                    position += len(block)
                    on_bytes(len(block))
            if position < part.stop:
                raise IncompleteReadError(actual_bytes=position, expected_bytes=part.stop)
            return first
        except S3_RETRYABLE_DOWNLOAD_ERRORS as error:
            last = error
            if first is not None and position == part.stop:
                return first
    raise RetriesExceededError(last)


def _arguments(target: Target, part: range) -> dict[str, Any]:
    """Return GetObject's arguments; without a range for a whole object, to get its checksum."""
    remote = target.remote
    arguments: dict[str, Any] = {
        "Bucket": target.bucket,
        "Key": remote.key,
        "IfMatch": f'"{remote.etag}"',
        "ChecksumMode": "ENABLED",
    }
    if len(part) < remote.size_bytes:
        arguments["Range"] = f"bytes={part.start}-{part.stop - 1}"
    return arguments


def _check(answer: Answer, remote: RemoteObject, part: range) -> None:
    """Raise an exception for an answer with other bytes, which would overwrite another part."""
    from botocore.parsers import ResponseParserError

    etag, length = answer.get("ETag", remote.etag), answer.get("ContentLength")
    if len(part) < remote.size_bytes:
        wanted = f"bytes {part.start}-{part.stop - 1}/{remote.size_bytes}"
        if answer.get("ContentRange") != wanted or length != len(part):
            raise ResponseParserError("the answer has another range than was requested")
    elif length != remote.size_bytes:
        raise error_of("PreconditionFailed")
    if etag.strip('"') != remote.etag:  # the server ignores If-Match
        raise error_of("PreconditionFailed")


def write_at(descriptor: int, block: bytes | memoryview, position: int) -> None:
    """Write the whole block, also after short writes of an almost full volume. Raises OSError."""
    view = memoryview(block)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
