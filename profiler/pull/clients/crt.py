# SPDX-License-Identifier: Apache-2.0
"""s3transfer on AWS's Common Runtime (CRT): connections, parts and retries in C threads.

The client makes it itself, because boto3 ignores `endpoint_url` with the CRT (boto/boto3#4839) and
gives it to only one process of a host.
"""

from __future__ import annotations

import threading
from typing import Any

from profiler.pull.access import S3Access
from profiler.pull.clients.answers import error_of, head_object
from profiler.pull.clients.interface import Answer, OnBytes
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject

#: The runtime's errors (aws-c-s3, s3.h) and S3's codes for them.
_CODES = {
    "AWS_ERROR_S3_SLOW_DOWN": "SlowDown",
    "AWS_ERROR_S3_INTERNAL_ERROR": "InternalError",
    "AWS_ERROR_S3_OBJECT_MODIFIED": "PreconditionFailed",
}
#: Its errors for a server that cannot be reached (aws-c-io, io.h).
_UNREACHABLE = ("AWS_IO_SOCKET_", "AWS_IO_DNS_")
_OBJECTS_AT_ONCE = 64  # s3transfer's manager takes 128


class CrtClient:
    """s3transfer's CRT manager; the only setting it uses is `multipart_chunksize`."""

    objects_at_once = _OBJECTS_AT_ONCE

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        self._client = access.make_client()
        self._manager = _make_manager(self._client, access.resolved(self._client), settings)

    def download(self, bucket: str, remote: RemoteObject, path: str, on_bytes: OnBytes) -> None:
        """See PullClient. Raises botocore's and awscrt's exceptions, and OSError."""
        subscriber = _subscriber(on_bytes)
        future = self._manager.download(bucket, remote.key, path, None, [subscriber])
        try:
            future.result()
        except Exception as error:
            if subscriber.stopped is None:
                raise explained(error, self._client.meta.endpoint_url) from None
        finally:
            subscriber.done.wait()  # the result comes before the file has its name
        if subscriber.stopped is not None:
            raise subscriber.stopped

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PullClient."""
        return head_object(self._client, bucket, key, part)


def explained(error: Exception, endpoint_url: str) -> Exception:
    """Return botocore's exception with the meaning of the runtime's; others unchanged."""
    from botocore.exceptions import EndpointConnectionError

    name = getattr(error, "name", "")
    if name.startswith(_UNREACHABLE):
        unreachable: Exception = EndpointConnectionError(endpoint_url=endpoint_url)
        return unreachable
    code = _CODES.get(name)
    return error_of(code) if code else error


def _make_manager(client: Any, access: S3Access, settings: TransferSettings) -> Any:
    from s3transfer.crt import (
        BotocoreCRTCredentialsWrapper,
        BotocoreCRTRequestSerializer,
        CRTTransferManager,
        create_s3_crt_client,
    )

    session, region = access.make_session(), client.meta.region_name
    provider = None
    if access.sign_requests:
        wrapper = BotocoreCRTCredentialsWrapper(session.get_credentials())
        provider = wrapper.to_crt_credentials_provider()
    crt_client = create_s3_crt_client(
        region,
        provider,
        part_size=settings.multipart_chunksize,
        use_ssl=client.meta.endpoint_url.startswith("https:"),
    )
    arguments = {"region_name": region, "endpoint_url": access.endpoint_url}
    return CRTTransferManager(crt_client, BotocoreCRTRequestSerializer(session, arguments))


def _subscriber(on_bytes: OnBytes) -> Any:
    """Return a subscriber that counts bytes and keeps in `stopped` what `on_bytes` raises."""
    from s3transfer.subscribers import BaseSubscriber

    class Subscriber(BaseSubscriber):  # type: ignore[misc]
        stopped: Exception | None = None

        def __init__(self) -> None:
            self.done = threading.Event()

        def on_progress(self, future: Any, bytes_transferred: int, **_: Any) -> None:
            try:
                on_bytes(bytes_transferred)
            except Exception as error:
                self.stopped = error
                future.cancel()

        def on_done(self, **_: Any) -> None:
            self.done.set()

    return Subscriber()
