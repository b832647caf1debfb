"""The pull clients: what fetches one object into one file.

A client is made in the worker process that uses it, after that process has started: neither
boto3's sessions nor its threads survive a fork.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from profiler.pull.access import S3Access
from profiler.pull.settings import TransferSettings


class PullClient(Protocol):
    """What a worker needs of a client."""

    def download(self, bucket: str, key: str, path: str, on_bytes: Callable[[int], None]) -> None:
        """Fetch one object to `path`; `on_bytes` gets each number of bytes that arrives.

        The number is negative when bytes that were counted must be fetched again. Raises what the
        client's library raises.
        """

    def head(self, bucket: str, key: str) -> dict[str, Any]:
        """What S3 says about an object, its checksum included (HeadObject's answer)."""


class Boto3Client:
    """boto3's `download_file`, one object at a time: what most programs that pull do."""

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        self._client = access.make_client(settings.max_concurrency)
        self._config = settings.to_transfer_config()

    def download(self, bucket: str, key: str, path: str, on_bytes: Callable[[int], None]) -> None:
        """See PullClient. Raises boto3's, botocore's and s3transfer's exceptions, and OSError."""
        lock = threading.Lock()  # boto3 calls back from several threads, of this process only

        def count(amount: int) -> None:
            with lock:
                on_bytes(amount)

        self._client.download_file(bucket, key, path, Callback=count, Config=self._config)

    def head(self, bucket: str, key: str) -> dict[str, Any]:
        """See PullClient."""
        answer: dict[str, Any] = self._client.head_object(
            Bucket=bucket, Key=key, ChecksumMode="ENABLED"
        )
        return answer
