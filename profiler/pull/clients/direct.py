# SPDX-License-Identifier: Apache-2.0
"""The default client: GetObject in threads that each write what they read.

In s3transfer one thread writes what all others read, through a queue. Here an object of one part is
one request in one thread, and other threads (`PartThreads`) fetch the parts of larger objects. All
share the connections.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from profiler.pull.access import S3Access
from profiler.pull.clients.answers import head_object, kept
from profiler.pull.clients.interface import Answer, OnBytes
from profiler.pull.clients.part_threads import Check, PartThreads
from profiler.pull.clients.ranged_get import Target, get
from profiler.pull.request_times import OnRead, OnRequest, observe_requests
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject


class DirectClient:
    """Fetches twice `max_concurrency` objects at a time, and `max_concurrency` parts of others."""

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        threads = settings.max_concurrency if settings.use_threads else 0
        self.objects_at_once = settings.objects_at_once
        self._client = access.make_client(self.objects_at_once + threads)
        self._threads = PartThreads(threads) if threads else None
        self._settings = settings

    def download(
        self, bucket: str, remote: RemoteObject, path: str, on_bytes: OnBytes
    ) -> Answer | None:
        """See PullClient. Raises botocore's and s3transfer's exceptions, and OSError."""
        parts = parts_of(remote.size_bytes, self._settings)
        with _made(path) as descriptor:
            target = Target(bucket, remote, descriptor, self._settings.io_chunksize)

            def fetch(part: range, check: Check) -> Answer:
                def count(amount: int) -> None:
                    check()
                    on_bytes(amount)

                return get(self._client, target, part, count)

            if self._threads is not None and len(parts) > 1:
                self._threads.run(parts, fetch)
                return None
            answers = [get(self._client, target, part, on_bytes) for part in parts]
        return kept(answers[0]) if len(parts) == 1 else None

    def observe(self, on_request: OnRequest, on_read: OnRead) -> None:
        """Report the times of every later request."""
        observe_requests(self._client, on_request, on_read)

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PullClient."""
        return head_object(self._client, bucket, key, part)


def parts_of(size_bytes: int, settings: TransferSettings) -> list[range]:
    """Return the parts of an object, each of at least `multipart_chunksize` if possible.

    The remainder is spread over the parts, because a short part costs a request too. So parts are
    shorter than twice that size, and a smaller object is one part, whose answer has its checksum.
    """
    is_small = size_bytes < settings.multipart_threshold
    count = 1 if is_small else max(1, size_bytes // settings.multipart_chunksize)
    ends = [size_bytes * number // count for number in range(count + 1)]
    return [range(start, end) for start, end in zip(ends, ends[1:])]


@contextlib.contextmanager
def _made(path: str) -> Iterator[int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
