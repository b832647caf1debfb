"""GetObject for each small object, one transfer manager for the large ones: the default.

Below `multipart_threshold` a transfer manager adds tasks, queues and threads to what is one
request. Both ways share the connections.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from profiler.pull.access import S3Access
from profiler.pull.clients.interface import Answer, OnBytes
from profiler.pull.clients.transfer_manager import KEPT_FIELDS, TransferManagerClient
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject

_ATTEMPTS = 5  # as s3transfer's num_download_attempts
#: Small objects at once for each unit of concurrency: their connections wait more than they read,
#: and a part's thread of s3transfer's is idle meanwhile.
_SMALL_PER_THREAD = 2
_MAX_OBJECTS_AT_ONCE = 64  # a thread each


def objects_at_once(settings: TransferSettings) -> int:
    """How many small objects a worker fetches at once, each by a thread and a connection."""
    threads = settings.max_concurrency * _SMALL_PER_THREAD if settings.use_threads else 1
    return min(threads, _MAX_OBJECTS_AT_ONCE)


class DirectClient(TransferManagerClient):
    """Twice as many objects at once as `max_concurrency`, each small one in its own thread."""

    connections_per_thread = _SMALL_PER_THREAD

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        super().__init__(access, settings)
        config = settings.to_transfer_config()
        self._threshold_bytes, self._block_bytes = config.multipart_threshold, config.io_chunksize
        self.objects_at_once = objects_at_once(settings)

    def download(
        self, bucket: str, remote: RemoteObject, path: str, on_bytes: OnBytes
    ) -> Answer | None:
        """See PullClient. Raises botocore's and s3transfer's exceptions, and OSError."""
        if remote.size_bytes >= self._threshold_bytes:
            return super().download(bucket, remote, path, on_bytes)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
        try:
            return self._download(bucket, remote, descriptor, on_bytes)
        finally:
            os.close(descriptor)

    def _download(
        self, bucket: str, remote: RemoteObject, descriptor: int, on_bytes: OnBytes
    ) -> Answer:
        """botocore tries requests again; a body that breaks off is asked for again here."""
        from s3transfer.exceptions import RetriesExceededError
        from s3transfer.utils import S3_RETRYABLE_DOWNLOAD_ERRORS

        last: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                return self._get(bucket, remote, descriptor, on_bytes)
            except S3_RETRYABLE_DOWNLOAD_ERRORS as error:
                last = error
                on_bytes(-os.lseek(descriptor, 0, os.SEEK_CUR))
        raise RetriesExceededError(last)

    def _get(self, bucket: str, remote: RemoteObject, descriptor: int, on_bytes: OnBytes) -> Answer:
        os.lseek(descriptor, 0, os.SEEK_SET)
        answer: dict[str, Any] = self._client.get_object(
            Bucket=bucket, Key=remote.key, IfMatch=f'"{remote.etag}"', ChecksumMode="ENABLED"
        )
        with contextlib.closing(answer["Body"]) as body:
            while block := body.read(self._block_bytes):
                write_all(descriptor, block)
                on_bytes(len(block))
        return {
            name: value
            for name, value in answer.items()
            if name in KEPT_FIELDS or name.startswith("Checksum")
        }


def write_all(descriptor: int, block: bytes) -> None:
    """Write all of it: a write is short where the volume is almost full. Raises OSError."""
    view = memoryview(block)
    while view:
        view = view[os.write(descriptor, view) :]
