# SPDX-License-Identifier: Apache-2.0
"""boto3's `download_file`, one object at a time, as most programs pull."""

from __future__ import annotations

from profiler.pull.access import S3Access
from profiler.pull.clients.answers import head_object
from profiler.pull.clients.interface import Answer, OnBytes
from profiler.pull.request_times import OnRead, OnRequest, observe_requests
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject


class Boto3Client:
    """A transfer manager for each object; it requests the size first (HeadObject)."""

    objects_at_once = 1

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        self._client = access.make_client(settings.max_concurrency)
        self._config = settings.to_transfer_config()

    def download(self, bucket: str, remote: RemoteObject, path: str, on_bytes: OnBytes) -> None:
        """See PullClient. Raises boto3's, botocore's and s3transfer's exceptions, and OSError."""
        self._client.download_file(bucket, remote.key, path, Callback=on_bytes, Config=self._config)

    def observe(self, on_request: OnRequest, on_read: OnRead) -> None:
        """Report the times of every later request."""
        observe_requests(self._client, on_request, on_read)

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PullClient."""
        return head_object(self._client, bucket, key, part)
