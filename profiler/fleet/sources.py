# SPDX-License-Identifier: Apache-2.0
"""The files of records: below a directory, or below a prefix in S3. None is read beyond the limit.

A file that cannot be read is yielded with the reason; only a source that cannot be listed is an
error.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from profiler.fleet.record import MAX_UNPACKED_BYTES
from profiler.fleet.writing import PREFIX, SUFFIX, RecordPlace

if TYPE_CHECKING:
    from profiler.pull.access import S3Access

_DAY = re.compile(r"dt=(\d{4}-\d{2}-\d{2})")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Requests at a time; a small object takes S3 some 20 to 50 ms.
_REQUESTS = 64
_TOO_LARGE = f"more than {MAX_UNPACKED_BYTES >> 20} MiB"


class PackedFile(NamedTuple):
    """A file's name, and its content or why it could not be read."""

    name: str
    content: bytes = b""
    problem: str = ""


def files_at(place: RecordPlace, access: S3Access, since: str = "") -> Iterator[PackedFile]:
    """Yield every file of records, of the days from `since` (YYYY-MM-DD) on. Raises WritewiseError.

    Only directories of days are left out because of `since`; other files are always read.
    """
    if place.path is None:
        yield from _objects(place, access, since)
    else:
        yield from _local(place.path, since)


def _local(path: Path, since: str) -> Iterator[PackedFile]:
    if not path.exists():
        raise UsageError(f"{printable(str(path))} does not exist", "name a directory of records")
    if not path.is_dir():
        yield PackedFile(path.name, *_read(str(path)))
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if _is_wanted(name, since))
        for name in sorted(names):
            if name.endswith(SUFFIX):
                full = f"{folder}/{name}"
                yield PackedFile(os.path.relpath(full, path), *_read(full))


def _is_wanted(folder: str, since: str) -> bool:
    day = _DAY.fullmatch(folder)
    return day is None or day[1] >= since


def _read(path: str) -> tuple[bytes, str]:
    """Return a regular file's content, or the reason why not."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        return b"", f"cannot be read: {error.strerror}"
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return b"", "not a regular file"
        content = file.read(MAX_UNPACKED_BYTES + 1)
    return (b"", _TOO_LARGE) if len(content) > MAX_UNPACKED_BYTES else (content, "")


def _objects(place: RecordPlace, access: S3Access, since: str) -> Iterator[PackedFile]:
    """Yield the objects in the order of their keys, with some requests at a time."""
    client = access.make_client(_REQUESTS)
    waiting: deque[Future[PackedFile]] = deque()
    with ThreadPoolExecutor(_REQUESTS, "records") as pool:
        for key, size_bytes in _listed(client, place, since):
            waiting.append(pool.submit(_fetched, client, place.bucket, key, size_bytes))
            if len(waiting) >= 2 * _REQUESTS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _listed(client: Any, place: RecordPlace, since: str) -> Iterator[tuple[str, int]]:
    """Yield key and size of each object. Raises PullError."""
    from profiler.pull.errors import NOT_S3, explain
    from profiler.pull.first_answer import answered_in_time

    prefix = "/".join(filter(None, (place.prefix, f"{PREFIX}/")))
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=place.bucket,
        Prefix=prefix,
        **({"StartAfter": f"{prefix}dt={since}"} if since else {}),
    )
    try:
        iterator = iter(pages)
        page = answered_in_time(client, place.bucket, lambda: next(iterator, None))
        while page is not None:
            for item in page.get("Contents", ()):
                if str(item["Key"]).endswith(SUFFIX):
                    yield str(item["Key"]), int(item["Size"])
            page = next(iterator, None)
    except (LookupError, TypeError, ValueError) as error:
        raise NOT_S3.as_error() from error
    except GeneratorExit:
        raise
    except Exception as error:  # botocore's, and those of what it uses
        raise explain(error, place.bucket).as_error() from error


def _fetched(client: Any, bucket: str, key: str, size_bytes: int) -> PackedFile:
    from profiler.pull.errors import explain

    if size_bytes > MAX_UNPACKED_BYTES:
        return PackedFile(key, problem=_TOO_LARGE)
    try:
        body = client.get_object(Bucket=bucket, Key=key)["Body"]
        content = body.read(MAX_UNPACKED_BYTES + 1)
    except Exception as error:  # botocore's, and those of what it uses
        return PackedFile(key, problem=f"cannot be read: {explain(error, bucket).message}")
    if len(content) > MAX_UNPACKED_BYTES:  # it was replaced since it was listed
        return PackedFile(key, problem=_TOO_LARGE)
    return PackedFile(key, content)
