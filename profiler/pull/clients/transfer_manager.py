# SPDX-License-Identifier: Apache-2.0
"""One s3transfer manager for all objects of a worker.

Objects share connections and threads, which `download_file` would start and end for each. The
manager gets size and ETag from the listing, so it needs no HeadObject before an object; S3's answer
with an object that comes whole makes the one after it unnecessary.
"""

from __future__ import annotations

from typing import Any

from profiler.pull.access import S3Access
from profiler.pull.clients.answers import head_object, kept
from profiler.pull.clients.interface import Answer, OnBytes
from profiler.pull.request_times import OnRead, OnRequest, observe_requests
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject


class TransferManagerClient:
    """s3transfer's classic manager, kept for the life of the worker."""

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        from boto3.s3.transfer import create_transfer_manager

        self._client = access.make_client(settings.max_concurrency)
        self._manager = create_transfer_manager(self._client, settings.to_transfer_config())
        self._answers = _Answers(self._client)
        self.objects_at_once = settings.objects_at_once

    def download(
        self, bucket: str, remote: RemoteObject, path: str, on_bytes: OnBytes
    ) -> Answer | None:
        """See PullClient. Raises botocore's and s3transfer's exceptions, and OSError."""
        subscribers = [_subscriber(remote, on_bytes)]
        arguments = {"ChecksumMode": "ENABLED"}
        try:
            self._manager.download(bucket, remote.key, path, arguments, subscribers).result()
        finally:
            answer = self._answers.take(remote.key)
        return answer

    def observe(self, on_request: OnRequest, on_read: OnRead) -> None:
        """Report the times of every later request."""
        observe_requests(self._client, on_request, on_read)

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PullClient."""
        return head_object(self._client, bucket, key, part)


class _Answers:
    """The answers for objects that came whole, by key; the answer to a range is another."""

    def __init__(self, client: Any) -> None:
        self._by_key: dict[str, Answer] = {}
        events = client.meta.events
        events.register("before-parameter-build.s3.GetObject", self._remember_key)
        events.register("after-call.s3.GetObject", self._keep)

    def take(self, key: str) -> Answer | None:
        """Remove and return the answer to the last request for `key`."""
        return self._by_key.pop(key, None)

    def _remember_key(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["writewise_key"] = params["Key"]

    def _keep(
        self, http_response: Any, parsed: dict[str, Any], context: dict[str, Any], **_: Any
    ) -> None:
        if http_response.status_code == 200:
            self._by_key[context["writewise_key"]] = kept(parsed)


def _subscriber(remote: RemoteObject, on_bytes: OnBytes) -> Any:
    """Return a subscriber that passes the listing to the manager and arrivals to the worker."""
    from s3transfer.subscribers import BaseSubscriber

    class Subscriber(BaseSubscriber):  # type: ignore[misc]
        def on_queued(self, future: Any, **_: Any) -> None:
            future.meta.provide_transfer_size(remote.size_bytes)
            provide_etag = getattr(future.meta, "provide_object_etag", None)
            if provide_etag:  # s3transfer before 0.11 had neither this nor If-Match
                provide_etag(f'"{remote.etag}"')

        def on_progress(self, future: Any, bytes_transferred: int, **_: Any) -> None:
            on_bytes(bytes_transferred)

    return Subscriber()
